"""The first half of `metapl demo`: the main job, `metapl fit`, on pictures that come with scikit-learn.

The 8×8 digits are written as PNGs into labeled/CLASS, unlabeled and test/CLASS, as a user would have them.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from metapl.fit.fit import fit
from metapl.fit.page import PAGE
from metapl.fit.request import Request

LABELED, TEST = 2, 40  # pictures of each class; all others are unlabelled
SIDE = 32  # pixels: the digits are made larger, so that people can see them
BUDGET = "1m"  # it needs less, but has one core of two, which others may use


def fit_digits(out: Path, console: Console) -> Path:
    """Write the pictures, fit them, and return the path of the page."""
    write_digits(out / "pictures")
    fit(str(out / "pictures"), Request(budget=BUDGET, mirror=False, features="patches"), out / "fit", console)
    return out / "fit" / PAGE


def write_digits(folder: Path) -> None:
    """Write all digits as PNGs.

    They are in the order of their writers. So they are drawn at random: each part has digits by all of them.
    """
    digits = load_digits()
    seen: dict[int, int] = {}
    for number in np.random.RandomState(0).permutation(len(digits.target)).tolist():
        grey, label = digits.images[number], int(digits.target[number])
        seen[label] = seen.get(label, 0) + 1
        role = "labeled" if seen[label] <= LABELED else "test" if seen[label] <= LABELED + TEST else "unlabeled"
        place = folder / role / ("" if role == "unlabeled" else str(label))
        place.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((grey * 15.9).astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        picture.save(place / f"{number:04}.png")
