"""Time, memory and page size of `metapl report` for many long runs.

    python benchmarks/report.py --folder /tmp/many          makes the runs if they do not exist, and measures

The runs are synthetic: the settings of a preset, and lines like those of MPL with random numbers.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from metapl import config as configs

CLASSES = 10
TAILS = 997  # different lines; a prime number, so that the pattern does not repeat with the steps


def main() -> None:
    """Make the missing runs, build the report in a process of its own, and print its cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--unfinished", type=int, default=10, help="how many have no result and no evaluations.csv")
    flags = parser.parse_args()
    runs = flags.folder / "runs"
    for number in range(flags.runs):
        if not (runs / f"run-{number:02}" / "config.toml").exists():
            make(runs / f"run-{number:02}", number, flags.lines, finished=number >= flags.unfinished)
    size = sum(file.stat().st_size for file in runs.glob("*/metrics.jsonl"))
    out = flags.folder / f"report-{time.time_ns()}"
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "metapl", "report", str(runs), "--out", str(out)], check=True)
    seconds = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    page = (out / "report.html").stat().st_size
    print(
        f"{flags.runs} runs, {flags.lines:,} lines each, {size / 1e9:.2f} GB: {seconds:.1f} s, processor time ",
        end="",
    )
    print(f"{used.ru_utime + used.ru_stime:.1f} s, at most {used.ru_maxrss / 2**20:.2f} GiB, page {page / 1e6:.2f} MB")


def make(run: Path, number: int, lines: int, finished: bool) -> None:
    """Write the folder of a run; config.toml comes last."""
    run.mkdir(parents=True)
    draw = np.random.default_rng(number)
    tails = [_tail(draw, i / TAILS) for i in range(TAILS)]
    with (run / "metrics.jsonl").open("wb") as file:
        for start in range(0, lines, 10_000):
            steps = range(start + 1, min(lines, start + 10_000) + 1)
            file.write(b"".join(b'{"seeds": [0], "stage": 0, "step": %d, %s' % (s, tails[s % TAILS]) for s in steps))
    command = ["metapl", "train", "digits_mpl_small"]
    environment = {"metapl": "0.1.0", "seeds": [number], "seeds_at_once": 1, "command": command}
    (run / "environment.json").write_text(json.dumps(environment))
    if finished:
        _finish(run, draw, number, lines)
    text = configs.dump(configs.load("digits_mpl_small"))
    (run / "config.toml").write_text(
        text.replace("steps = 3000\n", f"steps = {lines}\n").replace("@40#0", f"@{number + 9}0#0")
    )


def _tail(draw: np.random.Generator, way: float) -> bytes:
    names: tuple[str, ...] = (
        "baseline",
        "consistency_loss",
        "feedback",
        "feedback_cosine",
        "mask_rate",
        "pseudo_label_accuracy",
    )
    names += (
        "student_agreement",
        "student_gradient_norm",
        "student_labeled_accuracy",
        "student_loss",
        "finite_student",
    )
    names += (
        "teacher_gradient_norm",
        "teacher_labeled_accuracy",
        "teacher_loss",
        "finite_teacher",
        "labeled_mask_rate",
    )
    line = {name: [float(np.float32(way + draw.normal(0, 0.1)))] for name in sorted(names)}
    histogram = [np.float32(draw.dirichlet(np.ones(CLASSES))).tolist()]
    evaluated = {"test_accuracy": [way], "test_nll": [1 - way]} if draw.random() < 0.01 else {}
    return json.dumps(line | {"pseudo_label_histogram": histogram} | evaluated)[1:].encode() + b"\n"


def _finish(run: Path, draw: np.random.Generator, number: int, lines: int) -> None:
    accuracy = float(draw.uniform(0.7, 0.9))
    final = {name: {"seeds": {str(number): accuracy}} for name in ("accuracy", "nll", "calibration_error")}
    result = {"accuracy": accuracy, "std": 0.0, "accuracies": {str(number): accuracy}, "final": final}
    (run / "result.json").write_text(json.dumps(result))
    rows = [f"{number},0,{step},{step / lines * accuracy}" for step in range(100, lines + 1, 100)]
    (run / "evaluations.csv").write_text("\n".join(["seed,stage,step,test_accuracy", *rows]) + "\n")
    names = np.array([f"class {i}" for i in range(CLASSES)])
    counts = draw.integers(0, 50, (1, CLASSES, CLASSES)) + 400 * np.eye(CLASSES, dtype=np.int64)
    np.savez(run / "confusion.npz", counts=counts, seeds=np.array([number]), class_names=names)


if __name__ == "__main__":
    main()
