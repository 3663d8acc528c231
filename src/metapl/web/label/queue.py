"""The pictures to label, in order, and what was decided about each of them."""

import csv
import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from metapl.data import pictures
from metapl.data.reading.decode import BadImage
from metapl.data.sources.source import Images
from metapl.fit import listing
from metapl.fit.folder import DATA, REQUEST, read_json
from metapl.schema import ConfigError
from metapl.web.label import label_file
from metapl.web.label.label_file import Decision

LIST = "label_next.csv"
SHOWN_SIDE = 720  # pixels of the longer side of what the page shows


class Asked(NamedTuple):
    """One picture to label, and what the model takes it for."""

    path: str
    row: int  # among the unlabelled pictures
    guesses: tuple[tuple[str, float], ...]  # classes and probabilities, the best first


@dataclass(frozen=True, eq=False)
class LabelQueue:
    """What the page shows and changes; the server's threads share it."""

    asked: Sequence[Asked]
    class_names: tuple[str, ...]
    images: Images
    file: Path
    _writing: threading.Lock = threading.Lock()

    def state(self) -> dict[str, Any]:
        """The classes and all pictures, with the decisions so far."""
        decisions = label_file.read(self.file)
        return {
            "classes": list(self.class_names),
            "file": str(self.file),
            "pictures": [_as_json(number, one, decisions.get(one.path)) for number, one in enumerate(self.asked)],
        }

    def decide(self, number: int, decision: Decision) -> dict[str, Any]:
        """Write a decision down; ConfigError if it is about no picture or no class."""
        if not 0 <= number < len(self.asked):
            raise ConfigError(f"there is no picture {number}")
        if (decision.label in self.class_names) != (decision.choice == "label"):
            raise ConfigError(f"{decision.label!r} is none of the classes")
        with self._writing:
            label_file.add(self.file, self.asked[number].path, decision)
        return _as_json(number, self.asked[number], None if decision.choice == "undo" else decision)

    def png(self, number: int) -> bytes | None:
        """A picture, made smaller if it is large; None if there is none of this number, or it cannot be read."""
        if not 0 <= number < len(self.asked):
            return None
        try:
            pixels = np.asarray(self.images[self.asked[number].row])
        except (BadImage, OSError):
            return None
        image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        file = io.BytesIO()
        image.save(file, "PNG")
        return file.getvalue()


def _as_json(number: int, one: Asked, decision: Decision | None) -> dict[str, Any]:
    return {
        "number": number,
        "path": one.path,
        "guesses": [{"name": name, "probability": probability} for name, probability in one.guesses],
        "decision": decision and decision._asdict(),
    }


def load(fit: Path, file: Path | None) -> LabelQueue:
    """Read what a fit wants to know: its list of pictures to label next, and the pictures themselves."""
    if not (fit / REQUEST).is_file():
        raise ConfigError(f"{fit} is not the folder of a metapl fit")
    if not (fit / LIST).is_file():
        raise ConfigError(f"{fit} has no {LIST} yet: the fit must have ended, or reached its first model")
    settings = listing.settings(fit, size=0)
    if settings is None:
        raise ConfigError(f"{fit} does not say which pictures it used; begin the fit again in another folder")
    images = pictures.read(settings, ()).parts["unlabeled"].images
    rows = {images.name(row): row for row in range(len(images))}
    asked = [one for line in _lines(fit / LIST) if (one := _asked(line, rows)) is not None]
    if not asked:
        raise ConfigError(f"{fit / LIST} names no unlabelled picture that is still there: there is nothing to label")
    names = tuple(read_json(fit / DATA)["class_names"])
    return LabelQueue(asked, names, images, (file or fit / label_file.FILE).absolute())


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _asked(line: Mapping[str, str], rows: Mapping[str, int]) -> Asked | None:
    path = line.get("path", "")
    path = path if path in rows else path.removeprefix("./")
    if path not in rows:
        return None
    guesses = ((line["prediction"], line["probability"]), (line["second"], line["second_probability"]))
    return Asked(path, rows[path], tuple((name, float(probability)) for name, probability in guesses))
