"""The three rules, by hand."""

import csv
import json

import pytest
from rich.console import Console

from metapl.evaluate import results
from metapl.evaluate.measures import Scores
from metapl.evaluate.results import Evaluation


def evaluation(seed: int, step: int, test: float, val: float | None, stage: int = 0) -> Evaluation:
    val_scores = None if val is None else Scores(val, 1.0, 0.1)
    return Evaluation(seed, stage, step, Scores(test, 2 * test, 0.25), val_scores)


def test_final_is_the_last_and_never_the_best():
    history = [evaluation(0, 10, 0.9, 0.5), evaluation(0, 20, 0.6, 0.4)]
    assert results.summarize(history)["final"]["accuracy"] == {"mean": 0.6, "std": 0.0, "seeds": {"0": 0.6}}


def test_the_median_is_of_the_last_twenty():
    tests = [0.99] * 30 + [0.1] * 9 + [0.2] * 2 + [0.3] * 9
    history = [evaluation(0, step, test, None) for step, test in enumerate(tests)]
    entry = results.summarize(history)["median_last_20"]
    assert entry["accuracy"]["mean"] == pytest.approx(0.2)
    assert entry["nll"]["mean"] == pytest.approx(0.4)
    assert entry["evaluations"] == 20
    assert results.summarize(history[:3])["median_last_20"]["evaluations"] == 3


def test_validation_selects_and_the_earliest_of_equals_wins():
    history = [
        evaluation(0, 10, 0.95, 0.5),
        evaluation(0, 20, 0.71, 0.8),
        evaluation(0, 30, 0.99, 0.8),
        evaluation(0, 40, 0.60, 0.7),
    ]
    entry = results.summarize(history)["validation_selected"]
    assert entry["accuracy"]["mean"] == 0.71
    assert entry["steps"] == {"0": 20}
    assert entry["validation_accuracy"]["mean"] == 0.8


def test_each_seed_has_its_own_choice_and_the_spread_is_of_a_sample():
    history = [evaluation(3, 10, 0.7, 0.9), evaluation(4, 10, 0.5, 0.1)]
    history += [evaluation(3, 20, 0.6, 0.8), evaluation(4, 20, 0.9, 0.2)]
    summary = results.summarize(history)
    assert summary["evaluations"] == 2
    assert summary["validation_selected"]["steps"] == {"3": 10, "4": 20}
    chosen = summary["validation_selected"]["accuracy"]
    assert chosen["seeds"] == {"3": 0.7, "4": 0.9}
    assert chosen["mean"] == pytest.approx(0.8)
    assert chosen["std"] == pytest.approx((2 * 0.1**2 / 1) ** 0.5)
    json.dumps(summary, allow_nan=False)


def test_what_a_diverged_seed_scores_is_told_as_no_number():
    broken = Evaluation(1, 0, 20, Scores(0.1, float("nan"), float("nan")), None)
    history = [evaluation(0, 10, 0.5, None), evaluation(1, 10, 0.6, None), evaluation(0, 20, 0.7, None), broken]
    summary = results.summarize(history)
    json.dumps(summary, allow_nan=False)
    assert summary["final"]["nll"] == {"mean": None, "std": None, "seeds": {"0": 1.4, "1": None}}
    assert summary["final"]["accuracy"]["seeds"] == {"0": 0.7, "1": 0.1}
    assert list(results.table(summary).columns[2].cells) == ["not a number", "not a number"]


def test_without_validation_nothing_is_selected():
    assert results.summarize([evaluation(0, 10, 0.7, None)])["validation_selected"] is None


def test_only_the_last_stage_counts():
    history = [evaluation(0, 10, 0.9, 0.9), evaluation(0, 5, 0.4, 0.3, stage=1), evaluation(0, 10, 0.5, 0.2, stage=1)]
    summary = results.summarize(history)
    assert summary["evaluations"] == 2
    assert summary["validation_selected"]["accuracy"]["mean"] == 0.4
    assert summary["median_last_20"]["accuracy"]["mean"] == pytest.approx(0.45)


def test_percent_as_table_2_has_it():
    assert results.percent(results.spread({0: 0.93, 1: 0.94})) == "93.50 ± 0.71 % (2 seeds)"
    assert results.percent(results.spread({0: 0.93})) == "93.00 %"


def test_the_table_shows_the_rules_that_differ():
    history = [evaluation(0, 10, 0.9, 0.5), evaluation(0, 20, 0.6, 0.4)]
    assert shown(history) == ["final weights", "median of the last 2 evaluations", "best of 2 on validation"]
    assert shown([evaluation(0, step, 0.9, None) for step in (1, 2)])[1:] == ["median of the last 2 evaluations"]
    assert shown(history[:1]) == ["final weights"]


def shown(history: list[Evaluation]) -> list[str]:
    table = results.table(results.summarize(history))
    Console(quiet=True).print(table)
    return list(table.columns[0].cells)


def test_every_evaluation_is_a_row(tmp_path):
    results.write_evaluations(tmp_path / "e.csv", [evaluation(1, 10, 0.9, 0.5), evaluation(1, 20, 0.6, None)])
    first, second = csv.DictReader((tmp_path / "e.csv").read_text().splitlines())
    assert (first["seed"], first["step"], first["test_accuracy"], first["val_accuracy"]) == ("1", "10", "0.9", "0.5")
    assert (second["test_nll"], second["val_accuracy"]) == ("1.2", "")
