"""What an audit finds, in files and in memory, and how grave it says that it is."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from metapl.data.audit import duplicates
from metapl.data.audit import survey as surveys
from metapl.data.audit import table as audit_table
from metapl.data.audit.audit import Audit, Check, audit, to_dict, write
from metapl.data.audit.survey import CHUNK, survey
from metapl.data.sources.source import Source
from tests.data.pictures import files, in_memory, noise, save, source


def run(examined: Source, check: Check = Check()) -> Audit:  # noqa: B008
    return audit(examined, Console(quiet=True), check)


def texts(found: Audit, severity: str) -> list[str]:
    return [finding.text for finding in found.findings if finding.severity == severity]


def test_a_clean_source_has_no_findings() -> None:
    found = run(source(train=in_memory("a", [1, 2, 3], [0, 1, 2]), test=in_memory("b", [4, 5, 6], [0, 1, 2])))
    assert found.findings == ()
    assert found.surveys["train"].sizes == {(16, 16): 3}


def test_bad_files_are_listed_and_all_others_are_read(tmp_path: Path) -> None:
    good = [save(tmp_path, f"{i}.png", noise(i)) for i in range(4)]
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("no picture")
    (tmp_path / "cut.png").write_bytes(good[0].read_bytes()[:-30])
    bad = [tmp_path / "empty.png", tmp_path / "text.jpg", tmp_path / "cut.png", tmp_path / "missing.png"]
    found = run(source(unlabeled=files(good[0], *bad, *good[1:])))
    seen = found.surveys["unlabeled"]
    assert [entry.name for entry in seen.unreadable] == [str(path) for path in bad]
    assert seen.readable.tolist() == [True, False, False, False, False, True, True, True]
    assert len(texts(found, "problem")) == 1
    assert "4 pictures cannot be read" in texts(found, "problem")[0]
    assert str(bad[0]) in texts(found, "problem")[0]


def test_unreadable_pictures_are_no_copies_of_each_other(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).touch()
    found = run(source(train=files(tmp_path / "a.png"), test=files(tmp_path / "b.png")))
    assert found.duplicates == duplicates.Duplicates((), (), (), ())


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        ("train", "test", "problem"),
        ("labeled", "val", "problem"),
        ("unlabeled", "test", "problem"),
        ("extra", "test", "problem"),
        ("val", "test", "problem"),
        ("labeled", "unlabeled", "note"),
    ],
)
def test_the_same_picture_in_two_parts(first: str, second: str, severity: str) -> None:
    parts = {first: in_memory("x", [1, 2, 3, 4]), second: in_memory("y", [5, 2, 3])}
    found = run(Source(parts, ("cat",)))
    (text,) = texts(found, severity)
    assert "2 pictures have a copy in" in text
    assert ("leak" in text) == (severity == "problem")
    assert bool(found.problems) == (severity == "problem")


def test_a_leak_is_counted_in_evaluation_pictures() -> None:
    found = run(source(train=in_memory("x", [1, 1, 1, 2]), test=in_memory("y", [1, 5])))
    overlaps = {(overlap.part, overlap.other): overlap.pictures for overlap in found.duplicates.exact_overlaps}
    assert overlaps == {("test", "train"): 1, ("train", "train"): 3}


def test_the_same_pixels_in_two_formats_are_the_same(tmp_path: Path) -> None:
    one, two = save(tmp_path, "one.png", noise(1)), save(tmp_path, "two.bmp", noise(1))
    found = run(source(train=files(one), test=files(two)))
    assert [[picture.part for picture in group] for group in found.duplicates.exact] == [["train", "test"]]


def test_look_alikes_across_parts_are_notes_and_problems_when_strict(tmp_path: Path) -> None:
    original = save(tmp_path, "one.png", noise(1, 64))
    Image.open(original).save(tmp_path / "again.jpg", quality=85)
    examined = source(unlabeled=files(original), test=files(tmp_path / "again.jpg"))
    found = run(examined)
    assert not found.problems
    assert len(found.duplicates.near) == 1
    assert any("test: 1 picture has a look-alike in unlabeled (a leak" in text for text in texts(found, "note"))
    assert run(examined, Check(strict=True)).problems


def test_very_many_look_alikes_are_few_pairs() -> None:
    """Nearly blank pictures share a hash; all pairs of them would be half a million."""
    part = in_memory("x", [0] * 1000)
    part.images.array[:] = 100  # type: ignore[attr-defined]
    part.images.array[np.arange(1000), 0, 0, 0] = 90 + np.arange(1000) % 20  # type: ignore[attr-defined]
    part.images.array[np.arange(1000), 0, 1, 0] = 90 + np.arange(1000) // 20  # type: ignore[attr-defined]
    found = run(source(unlabeled=part))
    assert len(found.duplicates.near) < 30_000
    (overlap,) = found.duplicates.near_overlaps
    assert overlap.pictures > 900


def test_one_picture_with_two_labels_is_a_problem() -> None:
    found = run(source(train=in_memory("x", [1, 1, 2], [0, 1, 2])))
    assert any("several labels" in text and "x[0]" in text for text in texts(found, "problem"))
    agreeing = run(source(train=in_memory("x", [1, 1, 2], [1, 1, 2]), unlabeled=in_memory("u", [2])))
    assert not agreeing.problems


def test_labels_of_no_class_are_a_problem() -> None:
    found = run(source(train=in_memory("x", [1, 2, 3, 4], [0, 1, 3, 2])))
    assert texts(found, "problem") == ["train: 1 label outside the classes (the first: 3 of x[2])"]


def test_imbalance_and_missing_classes_are_notes() -> None:
    found = run(source(train=in_memory("x", list(range(12)), [0] * 11 + [1])))
    assert "train: no picture of eel" in texts(found, "note")
    assert "train: 11 pictures of the largest class, 1 of the smallest" in texts(found, "note")


def test_modes_and_sizes_are_counted(tmp_path: Path) -> None:
    paths = [save(tmp_path, "a.png", noise(1)), save(tmp_path, "b.png", noise(2, 20)[..., 0])]
    Image.fromarray(noise(3)).convert("CMYK").save(tmp_path / "c.jpg")
    found = run(source(unlabeled=files(*paths, tmp_path / "c.jpg")))
    assert found.surveys["unlabeled"].modes == {"RGB": 1, "L": 1, "CMYK": 1}
    assert found.surveys["unlabeled"].sizes == {(16, 16): 2, (20, 20): 1}
    assert "unlabeled: not stored as RGB: 1 as CMYK, 1 as L" in texts(found, "note")
    assert "unlabeled: 2 sizes of pictures, 16 to 20 pixels high" in texts(found, "note")


def test_large_jpegs_are_looked_at_reduced_and_counted_with_their_own_size(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(surveys, "ENOUGH", 16)
    pixels = np.kron(noise(1)[:, :, :3], np.ones((8, 12, 1), np.uint8))
    large = save(tmp_path, "a.jpg", pixels)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif)
    (tmp_path / "copy.jpg").write_bytes(large.read_bytes())
    found = run(source(train=files(large, tmp_path / "turned.jpg"), test=files(tmp_path / "copy.jpg")))
    assert found.surveys["train"].sizes == {(128, 192): 1, (192, 128): 1}
    assert len(found.duplicates.exact) == 1


def test_what_becomes_of_deep_pixels_and_what_shows_nothing_is_said(tmp_path: Path) -> None:
    for name, mode, top in (("deep", "I;16", 4000), ("float", "F", 0.1), ("dark", "RGB", 15), ("night", "RGB", 16)):
        steps = np.linspace(0, top, 64).reshape(8, 8)
        pixels = np.repeat(steps[..., None], 3, -1).astype(np.uint8) if mode == "RGB" else steps
        kind = np.uint16 if mode == "I;16" else np.float32 if mode == "F" else np.uint8
        Image.fromarray(pixels.astype(kind)).save(tmp_path / f"{name}.tif")
    paths = [tmp_path / f"{name}.tif" for name in ("deep", "float", "dark", "night")]
    found = run(source(unlabeled=files(*paths)))
    notes = texts(found, "note")
    assert any(
        note.startswith("unlabeled: 2 pictures of more than 8 bits a pixel, converted to 8 (floats, ") for note in notes
    )
    assert f"unlabeled: 1 picture of only one shade, or almost (the first: {paths[2]})" in notes
    assert to_dict(found)["parts"]["unlabeled"]["even"] == [str(paths[2])]


def test_many_chunks_stay_in_order() -> None:
    part = in_memory("x", list(range(2 * CHUNK + 5)))
    done: list[int] = []
    seen = survey(part.images, done.append)
    alone = survey(in_memory("x", [2 * CHUNK + 1]).images)
    assert seen.digests[2 * CHUNK + 1] == alone.digests[0]
    assert sum(done) == len(seen.readable) == 2 * CHUNK + 5


def test_the_files_say_it_all(tmp_path: Path) -> None:
    (tmp_path / "bad.png").touch()
    leaky = source(
        train=in_memory("x", [1, 2], [0, 1]), test=in_memory("y", [2], [1]), unlabeled=files(tmp_path / "bad.png")
    )
    write(run(leaky), tmp_path)
    said = json.loads((tmp_path / "audit.json").read_text())
    assert said["parts"]["train"]["class_counts"] == {"cat": 1, "dog": 1, "eel": 0}
    assert said["parts"]["unlabeled"]["unreadable"][0]["name"] == str(tmp_path / "bad.png")
    assert said["duplicates"]["exact"] == [["train: x[1]", "test: y[0]"]]
    assert said["duplicates"]["exact_overlaps"] == [{"part": "test", "other": "train", "pictures": 1, "leak": True}]
    with np.load(tmp_path / "hashes.npz") as hashes:
        assert hashes["train.hashes"][1] == hashes["test.hashes"][0]
        assert hashes["unlabeled.readable"].tolist() == [False]


def test_the_table_shows_names_with_brackets(tmp_path: Path) -> None:
    (tmp_path / "[red]bad.png").touch()
    console = Console(record=True, width=200, quiet=False, file=(tmp_path / "out").open("w"))
    found = audit(source(unlabeled=files(tmp_path / "[red]bad.png")), console)
    audit_table.show(found, console)
    shown = console.export_text()
    console.file.close()
    assert "[red]bad.png" in shown.replace("\n", "")
    assert "problem:" in shown


def test_of_a_part_with_a_time_limit_only_the_pictures_that_were_read_remain(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(surveys, "CHUNK", 2)
    paths = [save(tmp_path, f"{i:02}.png", noise(i)) for i in range(12)]
    paths[3].write_text("no picture")
    whole = run(source(unlabeled=files(*paths)))
    ample = audit(source(unlabeled=files(*paths)), Console(quiet=True), seconds={"unlabeled": 60.0})
    assert ample.source.parts["unlabeled"].images == whole.source.parts["unlabeled"].images
    assert np.array_equal(ample.surveys["unlabeled"].digests, whole.surveys["unlabeled"].digests)
    assert ample.surveys["unlabeled"].unreadable == whole.surveys["unlabeled"].unreadable

    short = audit(source(unlabeled=files(*paths)), Console(quiet=True), seconds={"unlabeled": 0.0})
    kept = short.source.parts["unlabeled"].images.paths
    assert len(kept) == len(short.surveys["unlabeled"].readable) == 2  # the first chunk
    rows = [paths.index(path) for path in kept]
    assert rows == sorted(rows)
    assert np.array_equal(short.surveys["unlabeled"].digests, whole.surveys["unlabeled"].digests[rows])


def test_all_arrays_are_read_whatever_the_limit() -> None:
    found = audit(source(unlabeled=in_memory("a", [1, 2, 3], [0, 1, 2])), Console(quiet=True), seconds={"unlabeled": 0})
    assert len(found.surveys["unlabeled"].readable) == 3
