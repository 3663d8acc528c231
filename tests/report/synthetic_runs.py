"""Folders of synthetic runs: the files that a report reads, with numbers chosen by the test."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metapl import config as configs

NASTY = '<script>alert(1)</script> "x" | `y` 三'
CLASSES = (NASTY, "cat", "dog")
SETTINGS = """
[data]
name = "digits"
split = "digits@40#0"
[model]
hidden = [4]
[[stages]]
steps = 100
[stages.method]
name = "supervised"
"""
METHODS = {
    "supervised": 'name = "supervised"',
    "randaugment": 'name = "supervised"\nview = "strong"',
    "uda": 'name = "uda"',
    "mpl": 'name = "mpl"\nconsistency.weight = 1.0',
}


def settings(method: str = "supervised", split: str = "digits@40#0", finetuned: bool = False) -> str:
    text = SETTINGS.replace('name = "supervised"', METHODS[method]).replace("digits@40#0", split)
    return text + ('[[stages]]\nsteps = 10\n[stages.method]\nname = "supervised"\n' if finetuned else "")


def make(
    folder: Path,
    text: str = SETTINGS,
    accuracies: Mapping[int, float] | None = None,
    labels: int = 40,
    checksum: str = "the same",
    lines: Sequence[Mapping] = (),
    evaluations: Sequence[tuple[int, int, int, float]] = (),
    command: Sequence[str] = (),
) -> Path:
    """Make one run; without accuracies it is not finished."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(configs.dump(configs.parse(text, "test")), "utf-8")
    split = {"class_names": CLASSES, "labeled": {"count": labels}, "checksum": checksum}
    (folder / "split.json").write_text(json.dumps(split))
    (folder / "environment.json").write_text(json.dumps({"seeds": [0], "seeds_at_once": 1, "command": list(command)}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if accuracies is not None:
        finish(folder, accuracies, evaluations)
    return folder


def finish(
    folder: Path, accuracies: Mapping[int, float], evaluations: Sequence[tuple[int, int, int, float]] = ()
) -> None:
    """Write the files of a finished run."""
    seeds = {str(seed): value for seed, value in accuracies.items()}
    mean = float(np.mean(list(accuracies.values())))
    final = {"accuracy": {"seeds": seeds}, "nll": {"seeds": seeds}}
    (folder / "result.json").write_text(json.dumps({"accuracy": mean, "std": 0.0, "accuracies": seeds, "final": final}))
    counts = np.array([[[8, 2, 0], [1, 9, 0], [0, 3, 7]]])
    np.savez_compressed(folder / "confusion.npz", counts=counts, seeds=np.array([0]), class_names=np.array(CLASSES))
    with (folder / "evaluations.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["seed", "stage", "step", "test_accuracy", "val_accuracy"])
        table.writerows([*row, None] for row in evaluations)


def line(step: int, stage: int = 0, seeds: Sequence[int] = (0,), **numbers: list) -> dict:
    return {"seeds": list(seeds), "stage": stage, "step": step} | numbers
