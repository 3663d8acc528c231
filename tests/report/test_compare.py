"""Which runs are compared with which, and what the charts of many runs show."""

import pytest

from metapl.report import compare, method, overview, read
from metapl.report.compare import Experiment

from .synthetic_runs import make, settings


def rows(*folders) -> list[Experiment]:
    loaded = read.read_runs(folders)
    return compare.by_experiment(loaded, {run.anchor: method.origin(run) for run in loaded})


def test_runs_that_differ_only_in_their_seeds_are_one_experiment(tmp_path):
    a = make(tmp_path / "a", "seed = 0\n" + settings(), {0: 0.5})
    b = make(tmp_path / "b", "seed = 1\nlog_every_steps = 7\n" + settings(), {1: 0.7})
    again = make(tmp_path / "again", settings(), {1: 0.1})
    other = make(tmp_path / "other", settings().replace("100", "200"), {2: 0.2})
    found = rows(a, b, again, other, make(tmp_path / "unfinished"))
    assert [row.name for row in found] == ["a and 1 more", "again", "other"]
    assert found[0].spread() == pytest.approx((0.6, 0.02**0.5, 2))


def test_pairs_need_the_same_data_and_the_same_seeds(tmp_path):
    first = make(tmp_path / "first", settings("supervised"), {0: 0.5, 1: 0.5, 9: 0.0})
    second = make(tmp_path / "second", settings("uda"), {0: 0.6, 1: 0.8, 8: 1.0})
    others = make(tmp_path / "others", settings("mpl"), {0: 0.6}, checksum="another")
    found = rows(first, second, others)
    groups = compare.by_data(found)
    assert [len(group) for group in groups.values()] == [2, 1]
    ((ours, theirs, difference),) = [pair for group in groups.values() for pair in compare.pairs(group)]
    assert (ours.name, theirs.name, difference.n, difference.better) == ("second", "first", 2, 2)
    assert difference.mean == pytest.approx(0.2)


def test_unknown_data_are_not_equal(tmp_path):
    folders = [make(tmp_path / name, settings(), {seed: 0.5}) for seed, name in enumerate("ab")]
    for folder in folders:
        (folder / "split.json").unlink()
    assert len(rows(*folders)) == 2


def test_of_many_experiments_each_is_compared_with_the_first(tmp_path):
    texts = [settings().replace("100", str(steps)) for steps in range(1, 9)]
    found = rows(*(make(tmp_path / str(i), text, {0: i / 10}) for i, text in enumerate(texts)))
    assert [(ours.name, theirs.name) for ours, theirs, _ in compare.pairs(found)] == [
        (str(i), "0") for i in range(1, 8)
    ]


def test_experiments_on_several_splits_are_compared_by_split(tmp_path):
    folders = []
    for split in range(3):
        for name, gain in (("supervised", 0.0), ("uda", 0.1)):
            text = settings(name, f"digits@40#{split}")
            folders.append(make(tmp_path / f"{name}{split}", text, {0: split / 10 + gain}, checksum=str(split)))
    ((ours, theirs, difference, splits),) = compare.over_splits(rows(*folders))
    assert (ours.title, theirs.title, splits, difference.n) == ("UDA", "Supervised", 3, 3)
    assert difference.mean == pytest.approx(0.1)


def test_the_parts_of_the_method_are_added_in_the_paper_s_order(tmp_path):
    mpl = make(
        tmp_path / "mpl", settings("mpl", finetuned=True), {0: 0.9}, evaluations=[(0, 0, 100, 0.85), (0, 1, 10, 0.9)]
    )
    others = [make(tmp_path / name, settings(name), {0: value}) for name, value in (("uda", 0.8), ("supervised", 0.5))]
    (figure,) = overview.ladders(rows(mpl, *others))
    texts = [part.split("</text>")[0] for part in figure.svg.split('">')[1:] if "</text>" in part]
    names = ["Supervised", "UDA", "UDA + MPL", "UDA + MPL + finetuning"]
    assert [text for text in texts if text in names] == names
    assert [text for text in texts if "(" in text] == ["80.00 (+30.00)", "85.00 (+5.00)", "90.00 (+5.00)"]


def test_two_parts_give_no_chart(tmp_path):
    assert overview.ladders(rows(*(make(tmp_path / name, settings(name), {0: 0.5}) for name in ("uda", "mpl")))) == []


def test_accuracy_is_drawn_against_several_numbers_of_labels(tmp_path):
    folders = [
        make(tmp_path / str(labels), settings("uda", f"digits@{labels}#0"), {0: 0.5, 1: 0.7}, labels, str(labels))
        for labels in (100, 40)
    ]
    (figure,) = overview.against_labels(rows(*folders, make(tmp_path / "x", settings("mpl"), {0: 0.1})))
    assert figure.description.startswith("UDA: from 60.00 to 60.00 %.")
    assert overview.against_labels(rows(folders[0])) == []
    again = make(tmp_path / "again", settings("uda", "digits@40#0").replace("100", "200"), {0: 0.1}, 40, "40")
    (figure,) = overview.against_labels(rows(*folders, again))
    assert figure.description.startswith("UDA: from 60.00 to 60.00 %.")
