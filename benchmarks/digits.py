"""Every method on `digits` with 40 labels, ten seeds each: the tables of docs/results.md.

    python benchmarks/digits.py --out runs/digits

Trains what is missing in the folder and prints the tables as Markdown. Two series:

- `seeds`: all presets, one split, ten seeds, each by the command that it prints: the spread is that of first weights,
  batches and views.
- `splits`: the methods that are compared in pairs, on ten splits with one seed each. Each split draws other 40 labelled
  pictures, so that a difference does not depend on one choice of labels. All ten train at once, in this process.

Accuracies are those of the final weights on the test pictures; nothing is selected by them.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl import config as configs
from metapl import data
from metapl.evaluate import held_out
from metapl.evaluate.statistics import mean_and_std, paired
from metapl.system import runtime
from metapl.train.loop import train


class Variant(NamedTuple):
    """A preset, or a preset with one setting changed."""

    title: str
    preset: str
    stage: int = 0
    setting: str = ""
    value: str = ""

    @property
    def command(self) -> list[str]:
        """The command that trains it with ten seeds."""
        flag = f"--stages.{self.stage}.method.{self.setting.replace('_', '-')}"
        changed = [flag, self.value] if self.value else [flag] if self.setting else []
        return ["metapl", "train", self.preset, "--seeds", str(TIMES), *changed]

    @property
    def toml(self) -> str:
        """The same settings as a file."""
        changed = f'[stages.{self.stage}]\nmethod.{self.setting} = "{self.value}"\n' if self.setting else ""
        return f'preset = "{self.preset}"\n{changed}'


TIMES = 10
STRONG, NONE = ("student_view", "strong"), ("feedback.estimator", "none")
METHODS = {
    "supervised": Variant("Supervised", "digits_supervised_small"),
    "label_smoothing": Variant("Supervised, label smoothing", "digits_label_smoothing_small"),
    "mixup": Variant("Supervised, Mixup", "digits_mixup_small"),
    "randaugment": Variant("Supervised, RandAugment", "digits_randaugment_small"),
    "pseudo_labels": Variant("Pseudo Labels", "digits_pseudo_labels_small"),
    "noisy_student": Variant("Noisy Student, one round", "digits_noisy_student_small"),
    "uda": Variant("UDA", "digits_uda_small"),
    "fixmatch": Variant("FixMatch", "digits_fixmatch_small"),
    "mpl": Variant("MPL, UDA teacher", "digits_mpl_small"),
    "mpl_none": Variant("MPL, UDA teacher, no feedback", "digits_mpl_none_small"),
    "mpl_strong": Variant("MPL, UDA teacher, student on strong views", "digits_mpl_small", 0, *STRONG),
    "mpl_none_strong": Variant(
        "MPL, UDA teacher, student on strong views, no feedback", "digits_mpl_none_small", 0, *STRONG
    ),
    "mpl_supervised": Variant("MPL, supervised teacher", "digits_mpl_supervised_small"),
    "mpl_supervised_none": Variant("MPL, supervised teacher, no feedback", "digits_mpl_supervised_small", 0, *NONE),
    "mpl_mixup": Variant("MPL, Mixup teacher", "digits_mpl_mixup_small"),
    "mpl_randaugment": Variant("MPL, RandAugment teacher", "digits_mpl_randaugment_small"),
    "mpl_randaugment_none": Variant("MPL, RandAugment teacher, no feedback", "digits_mpl_randaugment_small", 0, *NONE),
    "mpl_pseudo_labels": Variant("MPL, Pseudo Labels teacher", "digits_mpl_pseudo_labels_small"),
    "mpl_regularizer": Variant("MPL as a regulariser", "digits_mpl_regularizer_small"),
    "reduced_mpl": Variant("Reduced MPL", "digits_reduced_mpl_small"),
    "reduced_mpl_none": Variant("Reduced MPL, no feedback", "digits_reduced_mpl_small", 1, *NONE),
    "reduced_mpl_random": Variant("Reduced MPL, corrector not residual", "digits_reduced_mpl_small", 1, "no_residual"),
    "supervised_full": Variant("Supervised, all labels", "digits_supervised_full_small"),
}
PAIRS = (
    ("uda", "supervised"),
    ("mpl", "supervised"),
    ("mpl_none", "supervised"),
    ("mpl", "uda"),
    ("mpl_none", "uda"),
    ("mpl", "mpl_none"),
    ("mpl_strong", "mpl_none_strong"),
    ("mpl_strong", "uda"),
    ("mpl_supervised", "mpl_supervised_none"),
    ("mpl_supervised", "label_smoothing"),
)
COMPARED = tuple(dict.fromkeys(name for pair in PAIRS for name in pair))


def accuracies(folder: Path) -> NDArray[np.float64]:
    """A finished run's test accuracies, one for each seed."""
    by_seed = json.loads((folder / "result.json").read_text("utf-8"))["accuracies"]
    return np.array([by_seed[seed] for seed in sorted(by_seed, key=int)])


def over_seeds(name: str, out: Path) -> NDArray[np.float64]:
    """One method with ten seeds on one split, by its command."""
    folder = out / "seeds" / name
    if not (folder / "result.json").exists():
        command = [*METHODS[name].command, "--out", str(folder)]
        print(shlex.join(command), file=sys.stderr)
        subprocess.run([sys.executable, "-m", "metapl", *command[1:]], check=True, stdout=sys.stderr)
    return 100 * accuracies(folder)


def over_splits(name: str, out: Path) -> NDArray[np.float64]:
    """One method on ten splits, with one seed each."""
    file = out / "splits" / f"{name}.json"
    if not file.exists():
        print(f"{METHODS[name].title} on {TIMES} splits", file=sys.stderr)
        settings = [configs.parse(METHODS[name].toml + f'[data]\nsplit = "digits@40#{k}"', name) for k in range(TIMES)]
        datasets = [data.load(config.data, [config.seed], ())[0] for config in settings]
        config = settings[0]
        trained = train(config, range(TIMES), datasets)
        by_split = held_out.accuracies(trained, config.augmentation, datasets)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(by_split.tolist()), "utf-8")
    return 100 * np.array(json.loads(file.read_text("utf-8")))


def row(title: str, values: NDArray[np.float64]) -> str:
    """Mean, spread and range."""
    mean, std = mean_and_std(values)
    return f"| {title} | {mean:.2f} ± {std:.2f} | {np.min(values):.2f} … {np.max(values):.2f} |"


def pair_row(ours: str, theirs: str, values: dict[str, NDArray[np.float64]]) -> str:
    """The difference of two methods over the same seeds or splits."""
    difference = paired(values[ours], values[theirs])
    interval = f"[{difference.low:+.2f}, {difference.high:+.2f}]"
    titles = f"{METHODS[ours].title} | {METHODS[theirs].title}"
    return f"| {titles} | {difference.mean:+.2f} {interval} | {difference.better} / {difference.worse} |"


def table(heading: str, values: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """One series: each method, then the pairs."""
    yield from (f"### {heading}", "", "| method | accuracy (%) | lowest … highest |", "|---|---|---|")
    yield from (row(METHODS[name].title, accuracies) for name, accuracies in values.items())
    yield from ("", "| method | against | difference (points) | better / worse |", "|---|---|---|---|")
    yield from (pair_row(*pair, values) for pair in PAIRS)
    yield ""


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    out = parser.parse_args().out
    runtime.start()
    splits = {name: over_splits(name, out) for name in COMPARED}
    seeds = {name: over_seeds(name, out) for name in METHODS}
    print("\n".join([*table("One split, ten seeds", seeds), *table("Ten splits, a seed each", splits)]))


if __name__ == "__main__":
    main()
