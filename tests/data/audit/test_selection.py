"""The selection is what sorting everything would give; files and names stream; reasons add up."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from metapl.data.audit import leave_out, selection, top
from metapl.data.audit.leave_out import Hashed, LeaveOut
from metapl.data.audit.selection import Rules
from metapl.data.reading import probabilities
from metapl.schema import ConfigError
from tests.data.pictures import in_memory


def some_probabilities(rows: int, classes: int, seed: int = 0, levels: int = 1000) -> NDArray[np.float32]:
    """Rows that sum to about one; few levels make many ties."""
    raw = np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), rows)
    return (np.round(raw * levels) / levels).astype(np.float32)


def by_sorting(values: NDArray[np.float32], rules: Rules) -> list[tuple[int, int]]:
    """(class, row), straight from the definition."""
    kept = []
    for label in range(values.shape[1]):
        rows = [r for r in range(len(values)) if values[r, label] >= np.float32(rules.threshold)]
        if rules.rank == "top_class":
            rows = [r for r in rows if np.argmax(values[r]) == label]
        kept += [(label, r) for r in sorted(rows, key=lambda r: (-values[r, label], r))[: rules.per_class]]
    return kept


def entries_of(found: selection.Selection) -> list[tuple[int, int]]:
    return list(zip(found.entries.classes.tolist(), found.entries.rows.tolist(), strict=True))


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(0, 80),
    classes=st.integers(1, 5),
    per_class=st.integers(1, 30),
    threshold=st.sampled_from([0.0, 0.3, 0.9]),
    rank=st.sampled_from(["each_class", "top_class"]),
    at_once=st.integers(1, 60),
)
@settings(max_examples=100, deadline=None)
def test_streaming_gives_what_sorting_gives(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    rows: int,
    classes: int,
    per_class: int,
    threshold: float,
    rank: str,
    at_once: int,
) -> None:
    path = tmp_path_factory.mktemp("select") / "p.npy"
    values = some_probabilities(rows, classes, seed, levels=10)
    np.save(path, values)
    rules = Rules(per_class, threshold, rank)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probabilities, "VALUES_AT_ONCE", at_once)
        patch.setattr(top, "MIN_WAITING", 1)
        found = selection.select(path, rules)
    assert entries_of(found) == by_sorting(values, rules)
    assert found.rows == rows


@pytest.mark.parametrize("kind", ["f2.npy", "f8.npy", "npz", "packed.npz", "csv"])
def test_every_kind_of_file_gives_the_same(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probabilities, "VALUES_AT_ONCE", 50)
    values = (np.random.default_rng(1).integers(0, 65, (40, 3)) / 64).astype(np.float32)  # exact in float16
    path = tmp_path / f"p.{kind}"
    match kind:
        case "npz":
            np.savez(path, values)
        case "packed.npz":
            np.savez_compressed(path, names=np.arange(40), probabilities=values)
        case "csv":
            rows = [",".join([f'"a, {i}"', *map(str, row)]) for i, row in enumerate(values.tolist())]
            path.write_text("\n".join(["path,p0,p1,p2", *rows]) + "\n")
        case _:
            np.save(path, values.astype(kind[:2]))
    np.testing.assert_array_equal(np.concatenate(list(probabilities.chunks(path))), values)
    assert probabilities.shape(path).classes == 3
    names = list(probabilities.names(path, None))
    assert names[7] == ("a, 7" if kind == "csv" else "7")
    assert len(names) == 40


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[0.5, 0.5], [np.nan, 0.5]]), "row 1 holds nan"),
        (np.array([[0.5, 0.5], [3.0, -1.0]]), "row 1 holds -1.0 to 3.0; probabilities are 0 to 1"),
        (np.array([[0.0, 1.5]]), "row 0 holds 0.0 to 1.5"),
        (np.array([[0.0, -0.5]]), "row 0 holds -0.5 to 0.0"),
        (np.zeros(4), "it must be floats"),
        (np.zeros((4, 2), np.int64), "it must be floats"),
        (np.asfortranarray(np.zeros((4, 2))), "Fortran"),
        (np.array([[{}]], dtype=object), "it must be floats"),
    ],
)
def test_what_is_no_probability_is_refused(tmp_path: Path, values: NDArray[np.generic], message: str) -> None:
    np.save(tmp_path / "p.npy", values)
    with pytest.raises(ConfigError, match=message):
        selection.select(tmp_path / "p.npy", Rules())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.npy", b"", "not a NumPy array"),
        ("p.npz", b"no zip", "not a zip"),
        ("p.txt", b"", "from .npy, .npz or .csv"),
        ("p.csv", b"", "first line must be"),
        ("p.csv", b"path,p0,p1\na,0.5\n", "rows 1 to 1 does not have 2 numbers"),
        ("p.csv", b"path,p0,p1\na,0.5,x\n", "rows 1 to 1"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name}: .*{message}"):
        selection.select(tmp_path / name, Rules())
    with pytest.raises(ConfigError, match=r"gone\.npy: No such file"):
        selection.select(tmp_path / "gone.npy", Rules())


def test_a_truncated_array_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", some_probabilities(50, 4))
    whole = (tmp_path / "p.npy").read_bytes()
    (tmp_path / "p.npy").write_bytes(whole[:-5])
    with pytest.raises(ConfigError, match="truncated"):
        selection.select(tmp_path / "p.npy", Rules())


def test_up_sampling_fills_every_class_that_has_any(tmp_path: Path) -> None:
    values = np.array([[0.9, 0.1, 0], [0.8, 0.2, 0], [0.7, 0.3, 0], [0.4, 0.6, 0]], np.float32)
    np.save(tmp_path / "p.npy", values)
    rules = Rules(per_class=5, rank="top_class", upsample=True)
    found = selection.select(tmp_path / "p.npy", rules)
    totals = np.bincount(found.entries.classes, found.copies, minlength=3)
    assert totals.tolist() == [5, 5, 0]
    assert sorted(found.copies[:3].tolist()) == [1, 2, 2]
    again = selection.select(tmp_path / "p.npy", rules)
    np.testing.assert_array_equal(found.copies, again.copies)


def test_look_alikes_and_bad_pictures_make_room_for_the_next(tmp_path: Path) -> None:
    values = np.linspace(1, 0.1, 10, dtype=np.float32)[:, None]
    np.save(tmp_path / "p.npy", values)
    hashes = np.random.default_rng(0).integers(0, 2**64, 10, dtype=np.uint64)
    readable = np.ones(10, bool)
    readable[2] = False
    forbidden = np.array([hashes[0], hashes[3] ^ np.uint64(0b111), hashes[4] ^ np.uint64(0xFF)])
    out = LeaveOut(leave_out.from_hashes(Hashed(hashes, readable)), forbidden, 6)
    found = selection.select(tmp_path / "p.npy", Rules(per_class=4), out)
    assert found.entries.rows.tolist() == [1, 4, 5, 6]
    assert (out.look_alikes, out.unreadable) == (2, 1)
    summary = selection.summarize(found, Rules(per_class=4), out)
    assert summary["left_out"] == {
        "below_threshold": 0,
        "look_alike_in_val_or_test": 2,
        "unreadable": 1,
        "not_among_the_most_probable": 3,
    }


def test_hashes_of_pictures_are_taken_when_asked_for() -> None:
    images = in_memory("x", [1, 2, 3]).images
    test = leave_out.evaluation_hashes({"test": leave_out.from_images(images)(np.array([1]))}, "it")
    out = LeaveOut(leave_out.from_images(images), test, 0)
    assert out(np.array([0, 1, 2])).tolist() == [True, False, True]
    with pytest.raises(ConfigError, match="neither val nor test; its parts are train"):
        leave_out.evaluation_hashes({"train": Hashed(test, np.ones(1, bool))}, "it")


def test_the_files_say_who_and_why(tmp_path: Path) -> None:
    values = np.array([[0.1, 0.9], [0.6, 0.4], [0.2, 0.8], [0.55, 0.45]], np.float32)
    np.save(tmp_path / "p.npy", values)
    (tmp_path / "names.txt").write_text("a.jpg\nb, c.jpg\nd.jpg\ne.jpg\n")
    rules = Rules(per_class=1, threshold=0.5, rank="top_class")
    found = selection.select(tmp_path / "p.npy", rules)
    selection.write(found, probabilities.names(tmp_path / "p.npy", tmp_path / "names.txt"), rules, None, tmp_path)
    chosen = list(csv.DictReader((tmp_path / "selection.csv").read_text().splitlines()))
    assert [(row["row"], row["path"], row["class"], row["copies"]) for row in chosen] == [
        ("0", "a.jpg", "1", "1"),
        ("1", "b, c.jpg", "0", "1"),
    ]
    reasons = list(csv.DictReader((tmp_path / "audit.csv").read_text().splitlines()))
    assert reasons[0]["kept_because"] == (
        "number 1 of the 1 most probable of class 1; at or above 0.5; not compared with val and test"
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert sum(summary["left_out"].values()) + summary["kept"]["distinct_pictures"] == summary["rows"] == 4
    assert summary["classes"][0] == {"kept": 1, "with_copies": 1, "lowest_probability": pytest.approx(0.6)}


def test_too_few_names_are_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", some_probabilities(5, 2))
    (tmp_path / "names.txt").write_text("a\nb\n")
    found = selection.select(tmp_path / "p.npy", Rules())
    with pytest.raises(ConfigError, match="names for only 2 rows"):
        selection.write(found, probabilities.names(tmp_path / "p.npy", tmp_path / "names.txt"), Rules(), None, tmp_path)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the rows, the same peak: counted by tracemalloc, with small buffers."""
    import tracemalloc

    monkeypatch.setattr(probabilities, "VALUES_AT_ONCE", 1 << 12)
    monkeypatch.setattr(top, "MIN_WAITING", 1 << 12)
    peaks = []
    for rows in (20_000, 200_000):
        values = np.lib.format.open_memmap(tmp_path / "p.npy", "w+", np.float16, (rows, 10))
        values[:] = np.random.default_rng(0).random((rows, 10))
        del values
        tracemalloc.start()
        selection.select(tmp_path / "p.npy", Rules(per_class=50))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 4_000_000  # the file has 4 MB


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + b"\x01" * 18, b"not a file of arrays"])
def test_a_damaged_file_of_hashes_is_refused_in_a_sentence(tmp_path, content):
    """Found by mutation: an empty file, and one that claims a directory elsewhere, gave a traceback."""
    (tmp_path / "hashes.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"not a hashes\.npz of metapl data check"):
        leave_out.read(tmp_path / "hashes.npz")
