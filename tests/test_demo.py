"""The TwoMoon comparison, small."""

import csv
import errno
import io
import json
import re
import time

import numpy as np
import pytest
from rich.console import Console

from metapl import demo
from metapl.schema import ConfigError

DEMO = demo.Demo(datasets=3, seed=7, steps=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    with (out / "screen.txt").open("w") as screen:
        demo.compare(DEMO, out, Console(file=screen))
    return out


def test_a_full_disk_is_told_of_in_a_sentence_after_the_tables(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    accuracies = np.ones(3)
    config = demo._config("supervised", DEMO)
    outcomes = {name: demo.Outcome(config, None, [], accuracies, 0.0, None, None) for name in demo.METHODS}
    monkeypatch.setattr(demo.Training, "finish", lambda *_: outcomes)
    monkeypatch.setattr("os.fsync", full)
    screen = Console(file=io.StringIO(), width=200)
    words = "could not be written: No space .* start again; the tables above are complete"
    with pytest.raises(ConfigError, match=words):
        demo.compare(DEMO, tmp_path, screen)
    assert "Paired differences" in screen.file.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_the_summary_says_what_it_must(folder):
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary) == set(demo.METHODS)
    for name, entry in summary.items():
        assert {"success_rate", "mean_accuracy", "datasets", "steps", "seconds"} <= set(entry)
        assert entry["datasets"] == 3
        assert entry["steps"] == (40 if name == "pseudo_labels" else 20)
        assert 0 <= entry["success_rate"] <= 1


def test_the_summary_is_of_the_accuracies_in_the_table(folder):
    summary = json.loads((folder / "summary.json").read_text())
    rows = list(csv.DictReader((folder / "accuracies.csv").read_text().splitlines()))
    assert [row["seed"] for row in rows] == ["7", "8", "9"]
    for name, entry in summary.items():
        accuracies = np.array([float(row[name]) for row in rows])
        assert entry["mean_accuracy"] == pytest.approx(accuracies.mean())
        assert entry["success_rate"] == np.mean(accuracies >= 0.99)
        for other, difference in entry["paired"].items():
            theirs = np.array([float(row[other]) for row in rows])
            assert difference["mean"] == pytest.approx((accuracies - theirs).mean())


def test_there_is_a_picture_with_a_panel_for_each_method(folder):
    from PIL import Image

    with Image.open(folder / "two_moons.png") as picture:
        assert picture.size[0] > 1200
        assert len(picture.convert("RGB").getcolors(10**6)) > 50


def test_the_page_ends_where_the_table_does(folder):
    """All methods, all frames of a short training, on the data sets that there are."""
    source = (folder / "two_moons.html").read_text("utf-8")
    film = json.loads(re.search(r'class="film">(.*?)</script>', source).group(1))
    rows = list(csv.DictReader((folder / "accuracies.csv").read_text().splitlines()))
    assert film["seeds"] == [7, 8, 9]
    assert film["steps"] == [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20]
    for name, method in zip(demo.METHODS, film["methods"], strict=True):
        assert method["accuracies"][-1] == pytest.approx([100 * float(row[name]) for row in rows], abs=0.06)
        assert demo.METHODS[name][0] in source
    assert {name for names in demo.FAMILIES.values() for name in names} == set(demo.METHODS)


def test_the_screen_shows_every_method_and_that_work_went_on(folder):
    screen = (folder / "screen.txt").read_text()
    for title, _ in demo.METHODS.values():
        assert title in screen
    assert "20 of 20 steps" in screen


def few_methods(monkeypatch, cores):
    monkeypatch.setattr(
        demo, "METHODS", {"pseudo_labels": demo.METHODS["pseudo_labels"], "supervised": ("Supervised", ())}
    )
    monkeypatch.setattr("metapl.system.runtime.cores", lambda: cores)
    return demo.Training(DEMO)


@pytest.mark.parametrize("cores", [1, 2])
def test_methods_train_beside_other_work_if_there_is_a_core_for_them(folder, monkeypatch, cores):
    training = few_methods(monkeypatch, cores)
    with training.beside():
        if cores > 1:
            training._futures["supervised"].result(timeout=60)
            assert not training._futures["pseudo_labels"].cancelled()
        else:
            time.sleep(0.2)
            assert not any(future.done() for future in training._futures.values())
    outcomes = training.finish(Console(file=io.StringIO()))
    rows = list(csv.DictReader((folder / "accuracies.csv").read_text().splitlines()))
    assert list(outcomes) == ["pseudo_labels", "supervised"]
    for name, outcome in outcomes.items():
        assert outcome.accuracies.tolist() == [float(row[name]) for row in rows]


def test_an_error_in_the_other_work_ends_the_training(monkeypatch):
    training = few_methods(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt), training.beside():
        raise KeyboardInterrupt
    assert all(future.done() for future in training._futures.values())


def test_methods_are_compared_on_the_same_data(folder):
    """The control of MPL is MPL with one setting changed."""
    from metapl import config as configs

    for name in ("mpl", "mpl_uda", "mpl_uda_sharp"):
        ours, control = (
            configs.to_dict(configs.load(f"two_moons_{name}")),
            configs.to_dict(configs.load(f"two_moons_{name}_none")),
        )
        assert ours["stages"][-1]["method"].pop("feedback") != control["stages"][-1]["method"].pop("feedback")
        assert ours == control
    data = {json.dumps(configs.to_dict(configs.load(f"two_moons_{name}"))["data"]) for name in demo.METHODS}
    assert len(data) == 1
