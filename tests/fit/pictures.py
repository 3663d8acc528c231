"""Pictures on disk and a silent console, for tests of fit."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console


def save(path: Path, picture: np.ndarray, mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).convert(mode).save(path)


def console() -> Console:
    return Console(file=io.StringIO(), width=200)
