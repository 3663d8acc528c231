"""Manifests: the same data give the same checksum, and any change is told."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapl.data.sources.source import DataError, Files, InMemory, Part, Records, Source
from metapl.data.sources.spec import parse_spec
from metapl.data.splits import manifest as manifests
from metapl.data.splits.assemble import assemble
from metapl.data.splits.manifest import check_manifest
from metapl.data.splits.split import make_split

ARRAY = np.random.RandomState(0).randint(0, 256, (40, 2, 2, 3)).astype(np.uint8)
LABELS = (np.arange(40) % 2).astype(np.int32)


def manifest(array: np.ndarray = ARRAY, labels: np.ndarray = LABELS, text: str = "x@10#1") -> dict[str, Any]:
    parts = {
        "train": Part(InMemory(array[:30], "train"), labels[:30]),
        "test": Part(InMemory(array[30:], "test"), labels[30:]),
    }
    source = Source(parts, ("a", "b"))
    return dict(assemble(source, make_split(parse_spec(text), source)).manifest)


def test_content() -> None:
    found = manifest()
    assert json.loads(json.dumps(found)) == found
    assert (found["source"], found["split"], found["class_names"]) == ("x", "x@10#1", ["a", "b"])
    assert {role: found[role]["count"] for role in ("labeled", "unlabeled", "val", "test")} == {
        "labeled": 10,
        "unlabeled": 30,
        "val": 0,
        "test": 10,
    }
    assert found["labeled"]["class_counts"] == [5, 5]
    assert "class_counts" not in found["unlabeled"]


def test_the_same_data_may_go_on() -> None:
    check_manifest(json.loads(json.dumps(manifest())), manifest(ARRAY.copy(), LABELS.copy()))


def changed(array: np.ndarray, index: Any) -> np.ndarray:
    copy = array.copy()
    copy[index] = 1 - copy[index] if array is LABELS else copy[index] ^ 1
    return copy


def test_a_changed_pixel_label_row_or_split_is_told() -> None:
    old = manifest()
    for new, reason in (
        (manifest(array=changed(ARRAY, (35, 0, 0, 0))), r"test changed \(pictures' content\)$"),
        (manifest(labels=changed(LABELS, 35)), r"test changed \(labels\)$"),
        (manifest(text="x@10#2"), r"split was 'x@10#1', is 'x@10#2'; labeled changed \(other pictures are chosen"),
        (manifest(text="x@12#1"), r"labeled had 10 pictures, has 12"),
        (manifest(array=ARRAY[:39], labels=LABELS[:39]), r"test had 10 pictures, has 9"),
        (manifest() | {"class_names": ["a", "c"], "checksum": "other"}, "the classes changed"),
    ):
        with pytest.raises(DataError, match=f"not those that the run started with: .*{reason}"):
            check_manifest(old, new)


def test_an_edited_manifest_is_told() -> None:
    with pytest.raises(DataError, match="edited"):
        check_manifest(manifest() | {"checksum": "0"}, manifest())


def files_manifest(folder: Path) -> dict[str, Any]:
    paths = tuple(sorted(folder.glob("*.png")))
    source = Source({"train": Part(Files(paths, folder), np.zeros(len(paths), np.int32))}, ("a",))
    return dict(assemble(source, make_split(parse_spec("folder"), source)).manifest)


def test_files_may_move_together_but_not_change(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for name in "ab":
        (here / f"{name}.png").write_text(name)
    old = files_manifest(here)
    here.rename(there)
    check_manifest(old, files_manifest(there))
    (there / "b.png").write_text("longer")
    with pytest.raises(DataError, match=r"labeled changed \(pictures' content\)"):
        check_manifest(old, files_manifest(there))
    (there / "b.png").write_text("b")
    (there / "b.png").rename(there / "c.png")
    with pytest.raises(DataError, match=r"labeled changed \(pictures' content\)"):
        check_manifest(old, files_manifest(there))


def test_records_count_by_shard_place_and_size(tmp_path: Path) -> None:
    def found(offset: int) -> dict[str, Any]:
        records = Records((tmp_path / "s",), np.zeros(1, np.int32), np.array([offset], np.int64), "x")
        source = Source({"train": Part(records, np.zeros(1, np.int32))}, ("a",))
        return dict(assemble(source, make_split(parse_spec("tfrecord"), source)).manifest)

    (tmp_path / "s").write_text("1")
    old = found(0)
    check_manifest(old, found(0))
    with pytest.raises(DataError, match="content"):
        check_manifest(old, found(1))
    (tmp_path / "s").write_text("12")
    with pytest.raises(DataError, match="content"):
        check_manifest(old, found(0))


def test_a_file_swapped_for_another_of_the_same_size_is_told(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.png").write_text(name)
    old = files_manifest(tmp_path)
    check_manifest(json.loads(json.dumps(old)), files_manifest(tmp_path))
    (tmp_path / "b.png").write_text("x")
    with pytest.raises(DataError, match=r"labeled changed \(pictures' content, though names and sizes are the same\)"):
        check_manifest(json.loads(json.dumps(old)), files_manifest(tmp_path))


def test_manifests_of_0_1_0_have_no_contents_and_are_still_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("a")
    old = files_manifest(tmp_path)
    del old["contents_crc32"]
    check_manifest(old, files_manifest(tmp_path))


@pytest.mark.parametrize("place", [0, 150, 299])
def test_of_large_files_both_ends_are_compared(tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_SMALL", 200)
    monkeypatch.setattr(manifests, "_EDGE", 100)
    (tmp_path / "a.png").write_bytes(bytes(300))
    old = files_manifest(tmp_path)
    (tmp_path / "a.png").write_bytes(bytes(place) + b"x" + bytes(299 - place))
    assert (old == files_manifest(tmp_path)) == (place == 150)


def test_of_many_files_some_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_SMALL", 4)
    monkeypatch.setattr(manifests, "_MOST_FILES", 2)
    for name in "abcde":
        (tmp_path / f"{name}.png").write_text(name)
    old = files_manifest(tmp_path)
    (tmp_path / "c.png").write_text("x")
    check_manifest(old, files_manifest(tmp_path))
    (tmp_path / "e.png").write_text("x")
    with pytest.raises(DataError, match="content"):
        check_manifest(old, files_manifest(tmp_path))


def test_a_named_pipe_among_the_pictures_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    assert files_manifest(tmp_path) == files_manifest(tmp_path)
