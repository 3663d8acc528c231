"""Every method on `digits` with 40 labels, ten seeds each: the tables of docs/results.md.

    python benchmarks/digits.py --out runs/digits

Runs what is not there yet, each with the command that it prints, and prints the tables as Markdown. Two series:

- `seeds`: all presets, one split, ten seeds: the spread is that of first weights, batches and views.
- `splits`: the methods that are compared in pairs, ten splits with a seed each: which 40 pictures carry labels is
  drawn anew, too, so that a difference means something beyond one choice of labels.

Accuracies are those of the final weights on the test pictures; nothing is chosen by them.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metapl.statistics import mean_and_std, paired

METHODS = {
    "supervised": "Supervised",
    "label_smoothing": "Supervised, label smoothing",
    "mixup": "Supervised, Mixup",
    "randaugment": "Supervised, RandAugment",
    "pseudo_labels": "Pseudo Labels",
    "noisy_student": "Noisy Student, one round",
    "uda": "UDA",
    "fixmatch": "FixMatch",
    "mpl": "MPL, UDA teacher",
    "mpl_none": "MPL, UDA teacher, no feedback",
    "mpl_supervised": "MPL, supervised teacher",
    "mpl_mixup": "MPL, Mixup teacher",
    "mpl_randaugment": "MPL, RandAugment teacher",
    "mpl_pseudo_labels": "MPL, Pseudo Labels teacher",
    "mpl_regularizer": "MPL as a regulariser",
    "reduced_mpl": "Reduced MPL",
    "supervised_full": "Supervised, all labels",
}
PAIRS = (
    ("uda", "supervised"),
    ("mpl", "supervised"),
    ("mpl_none", "supervised"),
    ("mpl", "uda"),
    ("mpl_none", "uda"),
    ("mpl", "mpl_none"),
)
COMPARED = ("supervised", "uda", "mpl", "mpl_none", "fixmatch")
TIMES = 10


def commands(out: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each run's folder, and what makes it."""
    for name in METHODS:
        folder = out / f"digits_{name}_small"
        yield folder, ["metapl", "train", folder.name, "--seeds", str(TIMES), "--out", str(folder)]
    for name in COMPARED:
        for k in range(TIMES):
            folder = out / "splits" / f"digits_{name}_small-{k}"
            split = f"digits@40#{k}"
            preset = f"digits_{name}_small"
            yield folder, ["metapl", "train", preset, "--seed", str(k), "--data.split", split, "--out", str(folder)]


def accuracies(folder: Path) -> NDArray[np.float64]:
    """A finished run's test accuracies, one for each seed, in per cent."""
    found = json.loads((folder / "result.json").read_text("utf-8"))["accuracies"]
    return 100 * np.array([found[seed] for seed in sorted(found, key=int)])


def over_splits(out: Path, name: str) -> NDArray[np.float64]:
    """The accuracies of one method, one for each split."""
    return np.concatenate([accuracies(out / "splits" / f"digits_{name}_small-{k}") for k in range(TIMES)])


def row(title: str, values: NDArray[np.float64]) -> str:
    """Mean, spread and range."""
    mean, std = mean_and_std(values)
    return f"| {title} | {mean:.2f} ± {std:.2f} | {np.min(values):.2f} … {np.max(values):.2f} |"


def pair_row(ours: str, theirs: str, values: dict[str, NDArray[np.float64]]) -> str:
    """The difference of two methods over the same seeds or splits."""
    found = paired(values[ours], values[theirs])
    interval = f"[{found.low:+.2f}, {found.high:+.2f}]"
    return f"| {METHODS[ours]} | {METHODS[theirs]} | {found.mean:+.2f} {interval} | {found.better} / {found.worse} |"


def tables(out: Path) -> str:
    """All tables, as Markdown."""
    seeds = {name: accuracies(out / f"digits_{name}_small") for name in METHODS}
    splits = {name: over_splits(out, name) for name in COMPARED}
    head = ["| method | accuracy (%) | lowest … highest |", "|---|---|---|"]
    pair_head = ["| method | against | difference (points) | better / worse |", "|---|---|---|---|"]
    lines = ["One split, ten seeds:", "", *head, *(row(METHODS[name], values) for name, values in seeds.items()), ""]
    lines += ["In pairs, over the seeds:", "", *pair_head, *(pair_row(*pair, seeds) for pair in PAIRS), ""]
    lines += [
        "Ten splits, a seed each:",
        "",
        *head,
        *(row(METHODS[name], values) for name, values in splits.items()),
        "",
    ]
    lines += ["In pairs, over the splits:", "", *pair_head, *(pair_row(*pair, splits) for pair in PAIRS)]
    return "\n".join(lines)


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    out = parser.parse_args().out
    for folder, command in commands(out):
        if not (folder / "result.json").exists():
            print(shlex.join(command), file=sys.stderr)
            subprocess.run([sys.executable, "-m", "metapl", *command[1:]], check=True, stdout=sys.stderr)
    print(tables(out))


if __name__ == "__main__":
    main()
