"""A small sweep: every method gets its trials, no trial sees test data, and the same command continues."""

import csv
import io
import json
import multiprocessing
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from rich.console import Console

from metapl import config as configs
from metapl.cli import main as cli
from metapl.schema import ConfigError
from metapl.sweep import coordinator, report, store, worker
from metapl.sweep.settings import Budget, SweepSettings, load, read_settings, validation_size

SETTINGS = """
[model]
hidden = [4]
activation = "relu"
[[stages]]
steps = {steps}
method = {{name = "supervised", optimizer = {{learning_rate = 0.1, warmup_steps = 0}}}}
"""
RATES = """
[all]
"stages.0.method.optimizer.learning_rate" = {type = "choice", values = [0.1, 1e38]}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Two methods on TwoMoon, and ranges of which every other value diverges."""
    found = tmp_path_factory.mktemp("sweep")
    for name, steps in (("short", 3), ("long", 900)):
        (found / f"{name}.toml").write_text(SETTINGS.format(steps=steps))
    (found / "rates.toml").write_text(RATES)
    return found


def make(place: Path, **budget) -> SweepSettings:
    words = [str(place / "short.toml"), str(place / "long.toml")]
    return read_settings(words, Budget(max_steps=4, validate_on=20, **budget), place / "rates.toml", ())


@pytest.fixture(scope="module")
def swept(place) -> tuple[Path, str]:
    """The folder of a finished sweep with two trials for each method, and what the console printed."""
    out, said = place / "out", io.StringIO()
    out.mkdir()
    with mock.patch("metapl.system.runtime.start"):
        url, console = f"sqlite:///{out}/sweep.db", Console(file=said, width=140)
        coordinator.sweep(make(place, trials=2, sampler="random"), "out", url, 1, out, console, 20)
    return out, said.getvalue()


def test_every_method_gets_its_trials_and_diverged_ones_count_as_the_worst(swept):
    rows = list(csv.DictReader((swept[0] / "report" / "trials.csv").read_text().splitlines()))
    assert [(row["method"], row["slot"]) for row in rows] == [
        ("short", "0"),
        ("short", "1"),
        ("long", "0"),
        ("long", "1"),
    ]
    rates = [json.loads(row["stages.0.method.optimizer.learning_rate"]) for row in rows]
    assert set(rates) == {0.1, 1e38}
    for row, rate in zip(rows, rates, strict=True):
        assert row["state"] == "complete"
        assert ("diverged" in row["failure"]) == (rate > 1)
        assert (float(row["validation_accuracy"]) == 0.0) or rate < 1


def test_the_table_summarizes_the_trials(swept):
    out, said = swept
    summary = json.loads((out / "report" / "sweep.json").read_text())
    assert [one["trials"] for one in summary["methods"]] == [2, 2]
    assert sum(one["failed"] for one in summary["methods"]) >= 1
    assert "validation accuracy (%) on 20 examples" in said
    assert "diverged" in said
    assert "read no test data" in said
    assert "(4 of 4)" in said


def test_the_best_settings_can_be_trained_with_all_their_steps(swept):
    (best,) = [path for path in (swept[0] / "report").glob("best-*.toml") if path.stem == "best-long"]
    config = configs.load(str(best))
    assert config.stages[0].steps == 900
    assert config.stages[0].method.optimizer.learning_rate == 0.1


def test_the_same_command_continues_and_does_nothing_twice(place, swept):
    out, _ = swept
    said, url = io.StringIO(), f"sqlite:///{out}/sweep.db"
    with mock.patch("metapl.sweep.worker.work") as worked:
        folder = coordinator.sweep(make(place, trials=2, sampler="random"), "out", url, 1, out, Console(file=said), 20)
    worked.assert_not_called()
    assert folder == out / "report-2"  # the earlier report stays
    rows = [
        store.open_study(store.connect(url), "out", method, make(place, trials=3, sampler="random").budget)
        for method in make(place).methods
    ]
    assert [len(report.finished(row)) for row in rows] == [2, 2]


def test_workers_that_finish_no_trial_give_an_error(place, tmp_path):
    with mock.patch("metapl.sweep.coordinator._work"), pytest.raises(ConfigError, match="without finishing a trial"):
        coordinator.sweep(
            make(place, trials=2), "out", f"sqlite:///{tmp_path}/s.db", 2, tmp_path, Console(file=io.StringIO()), 20
        )


def test_an_interrupted_trial_does_not_count(place, tmp_path):
    settings = make(place, trials=1)
    rows = [
        store.open_study(store.connect(f"sqlite:///{tmp_path}/s.db"), "s", method, settings.budget)
        for method in settings.methods
    ]
    stopped = mock.patch("metapl.sweep.worker.validation_accuracy", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        worker.work(rows, settings, tmp_path, lambda: None)
    assert report.finished(rows[0]) == []
    assert rows[0].optuna.get_trials()[0].state.name == "FAIL"
    with mock.patch("metapl.sweep.worker.validation_accuracy", return_value=0.5):
        worker.work(rows, settings, tmp_path, lambda: None)
    assert [len(report.finished(row)) for row in rows] == [1, 1]
    assert list((tmp_path / "workers").iterdir()) == []


def test_a_worker_whose_parent_has_ended_stops(place, tmp_path):
    settings = make(place, trials=1)
    row = store.open_study(store.connect(f"sqlite:///{tmp_path}/s.db"), "s", settings.methods[0], settings.budget)
    with mock.patch("metapl.sweep.worker.parent_process") as parent:
        parent.return_value.is_alive.return_value = False
        worker.work([row], settings, tmp_path, lambda: None)
    assert report.finished(row) == []


def test_a_trial_never_gets_the_test_examples(tmp_path):
    numbers = np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4)
    parts = {"images": numbers, "val_images": numbers + 50, "test_images": numbers + 100}
    labels = {name.replace("images", "labels"): np.arange(3) for name in parts}
    np.savez(tmp_path / "pictures.npz", **parts, **labels)
    (tmp_path / "my.toml").write_text('[data]\nname = "npz"\nfile = "pictures.npz"\n')
    settings = read_settings([str(tmp_path / "my.toml")], Budget(), None, [tmp_path])
    dataset = load(settings.methods[0].config, settings)
    np.testing.assert_array_equal(dataset.test[..., 0], numbers + 50)
    assert dataset.val is None
    with pytest.raises(ConfigError, match="leave --validate-on out"):
        load(settings.methods[0].config, settings._replace(budget=Budget(validate_on=1)))


def test_examples_are_held_out_if_the_data_have_no_validation_part():
    settings = read_settings(["digits_uda_small", "digits_mpl_small"], Budget(validate_on=50), None, [])
    dataset = load(settings.methods[0].config, settings)
    assert (len(dataset.test), len(dataset.unlabeled)) == (50, 1437 - 50)
    assert validation_size(settings) == 50


def test_pruning_is_off_unless_asked_for(place, tmp_path):
    """With pruning, a trial reports while it trains and may be stopped; it still counts."""
    (place / "rates.toml").write_text(RATES.replace("1e38", "0.2"))
    assert not Budget().prune
    settings = make(place, trials=1, prune=True)
    row = store.open_study(store.connect(f"sqlite:///{tmp_path}/s.db"), "s", settings.methods[0], settings.budget)
    with mock.patch("optuna.Trial.should_prune", return_value=True):
        worker.work([row], settings, tmp_path, lambda: None)
    (trial,) = report.finished(row)
    (place / "rates.toml").write_text(RATES)
    assert trial.state.name == "PRUNED"
    assert trial.value == trial.intermediate_values[1]
    assert report.best_of(row) is None


def test_importances_are_drawn_if_there_are_enough_trials(place, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MIN_TRIALS", 5)
    settings = make(place, trials=report.MIN_TRIALS)
    rows = [
        store.open_study(store.connect(f"sqlite:///{tmp_path}/s.db"), "s", method, settings.budget)
        for method in settings.methods[:1]
    ]
    values = iter(np.linspace(0.1, 0.9, 100))
    with mock.patch("metapl.sweep.worker.validation_accuracy", side_effect=lambda *_: float(next(values))):
        worker.work(rows, settings, tmp_path, lambda: None)
    (tmp_path / "report").mkdir()
    report.write(rows, settings, tmp_path / "report")
    assert "short" in (tmp_path / "report" / "importance.svg").read_text()
    assert (tmp_path / "report" / "importance.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "sweep needs presets or TOML files first"),
        (["digits_uda_small", "digits_uda_small"], "have the same name"),
        (["digits_uda_small", "two_moons_uda", "--validate-on", "5"], "different data"),
        (["digits_uda_small"], "--validate-on N (realistic: no more than the 40 labelled examples"),
        (["digits_uda_small", "--trials", "0"], "trials takes a number of at least 1"),
        (["cifar10_4k_mpl", "--max-steps", "100"], "cifar10_4k_mpl: stages.0: warmup_steps (2000) must be fewer"),
        (["cifar10_4k_mpl_released", "--max-steps", "5001"], "cifar10_4k_mpl_released: "),
        (["digits_uda_small", "--space", "none.toml"], "--space none.toml cannot be read"),
        (["nothing"], "is neither a preset"),
    ],
)
def test_a_mistake_is_found_before_anything_is_written(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", *args])
    assert stop.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_workers_job_can_be_sent_to_another_process(place):
    job = worker.Job(make(place), "s", "sqlite:///x", place)
    pickled = multiprocessing.reduction.ForkingPickler.dumps(job)
    assert multiprocessing.reduction.ForkingPickler.loads(pickled) == job
