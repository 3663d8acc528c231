"""The folder of a finished run with odd class names, a fit's folder around it, and pictures for it."""

import json
from pathlib import Path

import numpy as np
from faults import random_run
from faults.random_run import SETTINGS, SIX, drawn
from PIL import Image

__all__ = ["NAMES", "SETTINGS", "SIX", "drawn", "fit_folder", "make_run", "picture"]

NAMES = ("=ant", "bee & <script>", 'c"a,t')


def make_run(folder: Path, settings: str = SETTINGS, names=NAMES, example=SIX, seeds=(0,)) -> Path:
    return random_run.make_run(folder, names, settings, example, seeds)


def fit_folder(folder: Path, **changes) -> Path:
    """What `metapl fit` leaves: model.json beside the run that it names."""
    make_run(folder / "chosen")
    noted = {"format": 1, "run": "chosen", "temperature": 2.0} | changes
    (folder / "model.json").write_text(json.dumps(noted), "utf-8")
    return folder


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (6, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path
