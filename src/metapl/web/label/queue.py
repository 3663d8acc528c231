"""The pictures to label, in order, and what was decided about each of them."""

import io
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from metapl.data import pictures
from metapl.data.reading.decode import BadImage
from metapl.data.sources.source import Images, InMemory
from metapl.fit import label_file, listing
from metapl.fit.folder import DATA, REQUEST, VERDICT, explaining_damage, read_json
from metapl.fit.label_file import Decision
from metapl.schema import ConfigError

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
            raise ConfigError(f"{decision.label!r} is not one of the classes")
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
    if not (fit / VERDICT).is_file():
        raise ConfigError(f"{fit} has no {VERDICT} yet: the fit must have ended, or have been stopped after a rung")
    settings = listing.settings(fit, size=0)
    if settings is None:
        raise ConfigError(f"{fit} does not say which pictures it used; start the fit again in another folder")
    unlabeled = pictures.read(settings, ()).parts.get("unlabeled")
    if unlabeled is None or isinstance(unlabeled.images, InMemory):
        raise ConfigError(f"{fit} has no unlabelled pictures in files: labels are kept by the files' names")
    images = unlabeled.images
    rows = {images.name(row): row for row in range(len(images))}
    with explaining_damage(fit / VERDICT):
        asked = [_asked(line, rows) for line in read_json(fit / VERDICT)["label_next"] if line["path"] in rows]
    if not asked:
        raise ConfigError(f"{fit} has no unlabelled picture to ask about: there is nothing to label")
    with explaining_damage(fit / DATA):
        names = tuple(map(str, read_json(fit / DATA)["class_names"]))
    path = (file or fit / label_file.FILE).absolute()
    label_file.read(path)  # a damaged one is refused here, before there is a page
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{path} cannot be written; choose another place with --file")
    return LabelQueue(asked, names, images, path)


def _asked(line: Mapping[str, Any], rows: Mapping[str, int]) -> Asked:
    guesses = (
        (str(line["prediction"]), float(line["probability"])),
        (str(line["second"]), float(line["second_probability"])),
    )
    return Asked(line["path"], rows[line["path"]], guesses)
