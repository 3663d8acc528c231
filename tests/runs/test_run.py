"""A run's folder: what is in it agrees with itself, and does not depend on who trained with whom."""

import csv
import io
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

from metapl import config as configs
from metapl import data
from metapl.guards.keeper import StoppedError
from metapl.runs import result as run_result
from metapl.runs import work
from metapl.runs.start import start_run
from metapl.train import program

SETTINGS = """
seed = 3
eval_every_steps = 15
[data]
name = "npz"
file = "digits.npz"
[augmentation]
weak = {flip = false, shift_pixels = 0}
[model]
hidden = [16]
activation = "relu"
[[stages]]
steps = 50
labeled_batch = 50
unlabeled_batch = 1
method = {name = "supervised", optimizer.learning_rate = 0.2}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[int, tuple[Path, str, int]]:
    """Two seeds: one after another, and both at once. Each folder, what the console said, how many stages were made."""
    found = load_digits()
    pixels, labels = np.rint(found.images * (255 / 16)).astype(np.uint8), found.target
    place = tmp_path_factory.mktemp("data")
    parts = {"": slice(0, 200), "val_": slice(200, 300), "test_": slice(300, 500)}
    arrays = {f"{part}{kind}": a[rows] for part, rows in parts.items() for kind, a in _kinds(pixels, labels)}
    np.savez(place / "digits.npz", **arrays)
    runs = {}
    for at_once in (1, 2):
        out, said = tmp_path_factory.mktemp("run"), io.StringIO()
        with mock.patch("metapl.train.program.stage_functions", wraps=program.stage_functions) as made:
            start_run(configs.parse(SETTINGS, "test"), 2, at_once, [place], out, Console(file=said, width=140))
        runs[at_once] = out, said.getvalue(), made.call_count
    return runs


def _kinds(pixels, labels):
    return (("images", pixels), ("labels", labels))


def result(finished, at_once: int):
    return json.loads((finished[at_once][0] / "result.json").read_text())


def test_the_result_holds_the_three_rules_and_every_seed(finished):
    found = result(finished, 1)
    assert found["evaluations"] == 4
    assert found["seeds_at_once"] == 1
    assert found["median_last_20"]["evaluations"] == 4
    for rule in ("final", "median_last_20", "validation_selected"):
        for score in ("accuracy", "top5_accuracy", "nll", "calibration_error"):
            assert list(found[rule][score]["seeds"]) == ["3", "4"]
        assert "real_accuracy" not in found[rule]
    assert found["accuracies"] == found["final"]["accuracy"]["seeds"]
    assert found["accuracy"] == pytest.approx(np.mean(list(found["accuracies"].values())))
    assert found["std"] == pytest.approx(np.std(list(found["accuracies"].values()), ddof=1))
    assert found["accuracy"] > 0.3  # chance is 0.1


def test_the_rules_follow_from_the_evaluations(finished):
    out, found = finished[1][0], result(finished, 1)
    rows = [row for row in csv.DictReader((out / "evaluations.csv").read_text().splitlines()) if row["seed"] == "4"]
    assert [row["step"] for row in rows] == ["15", "30", "45", "50"]
    tests, vals = ([float(row[f"{part}_accuracy"]) for row in rows] for part in ("test", "val"))
    best = vals.index(max(vals))
    assert found["final"]["accuracy"]["seeds"]["4"] == tests[-1]
    assert found["median_last_20"]["accuracy"]["seeds"]["4"] == pytest.approx(np.median(tests))
    assert found["validation_selected"]["accuracy"]["seeds"]["4"] == tests[best]
    assert found["validation_selected"]["steps"]["4"] == int(rows[best]["step"])


def test_the_confusion_is_that_of_the_final_weights(finished):
    out, found = finished[1][0], result(finished, 1)
    with np.load(out / "confusion.npz") as file:
        counts, seeds = file["counts"], file["seeds"]
    assert seeds.tolist() == [3, 4]
    np.testing.assert_allclose(counts.trace(axis1=1, axis2=2) / 200, list(found["accuracies"].values()))
    five = found["per_class_accuracy"][5]
    assert five["seeds"]["4"] == pytest.approx(counts[1, 5, 5] / counts[1, 5].sum())


def test_one_after_another_and_all_at_once_give_the_same(finished):
    one, many = result(finished, 1), result(finished, 2)
    assert many["seeds_at_once"] == 2
    for rule in ("final", "median_last_20"):
        for seed in ("3", "4"):
            nll = [found[rule]["nll"]["seeds"][seed] for found in (one, many)]
            assert nll[0] == pytest.approx(nll[1], rel=1e-3)
    for out, _, _ in finished.values():
        assert {f"weights-{seed}.safetensors" for seed in (3, 4)} <= {path.name for path in out.iterdir()}


def test_seeds_one_after_another_share_what_is_compiled(finished):
    assert finished[1][2] == 1


def test_the_console_says_it_in_one_line_and_one_table(finished):
    said, found = finished[1][1], result(finished, 1)
    line = f"accuracy {100 * found['accuracy']:.2f} ± {100 * found['std']:.2f} % (2 seeds) after 50 steps"
    assert line in said
    assert "median of the last 4 evaluations" in said
    assert "best of 4 on validation" in said
    assert "supervised, seed 4" in said
    assert "val_accuracy" in said


def test_the_guards_go_on_from_the_lines_before_and_know_the_last_good_checkpoint(tmp_path):
    """Two sessions: the first was killed when its warning was due; in the second the run diverges at step 31."""
    config, said = configs.parse(SETTINGS, "test"), []
    dataset = data.load(configs.Config().data, [3], ())[0]
    masked = {"seeds": [3], "stage": 0, "mask_rate": [0.0]}
    lines = [json.dumps(masked | {"step": step}) for step in (5, 10, 15)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    for steps in (120, 129, 130):
        (tmp_path / "checkpoints" / f"step-{steps:010d}").mkdir(parents=True)
    listen = work.watching(tmp_path, config, [3], dataset, 100, said.append)
    (noted,) = (tmp_path / "warnings.jsonl").read_text().splitlines()
    assert json.loads(noted)["guard"] == "mask"
    listen(0, 20, {"mask_rate": np.zeros(1), "loss": np.ones(1)})
    assert said == []
    broken = {"loss": np.array([np.nan]), "finite_network": np.array([0.5])}
    with pytest.raises(StoppedError, match=r"from step 31 on .* last good checkpoint is step-0000000129"):
        listen(0, 40, broken)
    assert len((tmp_path / "warnings.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("digits_mpl_small", "mpl"),
        ("digits_noisy_student_small", "noisy_student"),
        ("digits_mixup_small", "supervised"),
    ],
)
def test_a_run_is_called_by_its_method_not_by_its_finetuning(preset, name):
    config = configs.load(preset)
    assert work.title(config, [0], 1) == name
    summary = {"final": {"accuracy": {"mean": 0.5, "std": 0.0, "seeds": {}}}}
    assert run_result.overview(config, summary, 1, 0.0)["method"] == name
