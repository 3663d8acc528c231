"""The command `metapl fit` on several draws of the labels, compared with scikit-learn's answer on the same pictures.

    python benchmarks/fit_draws.py SOURCE LABELS FIRST COUNT [--unlabeled COUNT] [--foreign SOURCE:COUNT] [FLAGS of fit]

SOURCE is cifar10, a folder with train/ and val/ such as imagenette64, … (docs/data.md). Draw FIRST, FIRST + 1, … has
LABELS labelled pictures of each class and 4,000 unlabelled ones of the train part; the same 1,000 pictures of the test
(or val) part measure it. Each draw becomes a folder of pictures, and `metapl fit FOLDER --out … FLAGS` runs on it, as a
user would run it. Prints the test accuracy of every rung in percent, the rung that the fit recommends, when the first
model was there, and the mean difference between the recommended one and logistic regression with its 95 % interval.
Results are in docs/own_pictures.md. With --foreign digits:400, so many pictures of another source are among the
unlabelled ones.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import stats

from metapl.data import open_source, pictures
from metapl.data.sources.source import Files, Images, Part, Source

TEST = 1000  # pictures


def read(source: str) -> Source:
    """All pictures of a source, by part."""
    return pictures.read(open_source.settings_of(source), (Path(),))


def save(images: Images, row: int, folder: Path) -> None:
    """Write a picture: the file itself if there is one, else its pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(images, Files):
        shutil.copyfile(images.paths[row], folder / f"{row}{images.paths[row].suffix}")
    else:
        array = images[row]
        Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(folder / f"{row}.png")


def write_draw(source: Source, labels: int, unlabeled: int, seed: int, folder: Path) -> None:
    """Write labeled/CLASS/, unlabeled/ and test/CLASS/."""
    train, test = source.parts["train"], source.parts.get("test") or source.parts["val"]
    order = np.random.RandomState(seed).permutation(len(train.labels))
    chosen = np.concatenate([order[train.labels[order] == c][:labels] for c in range(len(source.class_names))])
    rest = order[~np.isin(order, chosen)][:unlabeled]
    save_classes(train, chosen, source.class_names, folder / "labeled")
    for row in rest.tolist():
        save(train.images, row, folder / "unlabeled")
    measured = np.random.RandomState(1).permutation(len(test.labels))[:TEST]
    save_classes(test, measured, source.class_names, folder / "test")


def save_classes(part: Part, rows: NDArray[np.int64], class_names: tuple[str, ...], folder: Path) -> None:
    """Write pictures into a folder for each class."""
    for row in rows.tolist():
        save(part.images, row, folder / class_names[part.labels[row]])


def add_foreign(wanted: str, seed: int, folder: Path) -> None:
    """Add pictures of another source to the unlabelled ones."""
    name, _, count = wanted.rpartition(":")
    other = read(name).parts["train"].images
    for row in np.random.RandomState(seed).permutation(len(other))[: int(count)].tolist():
        save(other, row, folder / "unlabeled" / "foreign")


def fit_draw(source: Source, asked: argparse.Namespace, seed: int, flags: list[str]) -> dict[str, float]:
    """Run the command on one draw, and return the rungs' accuracies in percent; `recommended` is one of them."""
    with tempfile.TemporaryDirectory() as place:
        data, out = Path(place) / "pictures", Path(place) / "out"
        write_draw(source, asked.labels, asked.unlabeled, seed, data)
        if asked.foreign:
            add_foreign(asked.foreign, seed, data)
        command = [sys.executable, "-m", "metapl", "fit", str(data), "--out", str(out), *flags]
        with (Path(place) / "log").open("w+") as log:
            failed = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT).returncode
            if failed:
                log.seek(0)
                sys.exit("".join([*log.readlines()[-30:], f"draw {seed}: metapl fit failed"]))
        verdict = json.loads((out / "verdict.json").read_text("utf-8"))
        began = json.loads((out / "sessions.json").read_text("utf-8"))[0]["began"]
        first_s = (out / "linear" / "rung.json").stat().st_mtime - began
    accuracies = {row["name"]: 100 * row["accuracy"] for row in verdict["ladder"]}
    listed = " ".join(f"{name} {value:.1f}" for name, value in accuracies.items())
    outside = sum("foreign" in Path(row["path"]).parts for row in verdict["foreign"])
    print(f"draw {seed}: {listed}; recommended {verdict['recommended']}; left out as foreign "
          f"{len(verdict['foreign'])} (rightly {outside}); first model after {first_s:.0f} s, all "
          f"{verdict['seconds']:.0f} s", flush=True)  # fmt: skip
    return accuracies | {"recommended": accuracies[verdict["recommended"]]}


def main(asked: argparse.Namespace, flags: list[str]) -> None:
    """Run all draws."""
    source = read(asked.source)
    scores = [fit_draw(source, asked, seed, flags) for seed in range(asked.first, asked.first + asked.count)]
    for rung in dict.fromkeys(rung for score in scores for rung in score if rung != "linear"):
        pairs = np.array([(score[rung], score["linear"]) for score in scores if rung in score])
        gains = pairs[:, 0] - pairs[:, 1]
        if len(gains) > 1:
            reach = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains))
            interval = f"{gains.mean():+.2f} [{gains.mean() - reach:+.2f}, {gains.mean() + reach:+.2f}]"
            print(f"{rung} {pairs[:, 0].mean():.1f}, linear {pairs[:, 1].mean():.1f}: {interval}, {len(gains)} draws")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("source")
    for name in ("labels", "first", "count"):
        parser.add_argument(name, type=int)
    parser.add_argument("--unlabeled", type=int, default=4000)
    parser.add_argument("--foreign", default="")
    main(*parser.parse_known_args())
