"""A rung of the ladder: a model, what it cost, and what it predicts for the pictures that judge it.

The folder of a rung is a run's, so that `metapl predict`, `export` and `serve` take it. Beside the run's files it has
judged.npz (predictions) and, written last, rung.json: a rung without it is not finished.
"""

import io
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate.predictor import RUNG
from metapl.fit.folder import explaining_damage, read_json, write_json
from metapl.fit.listing import GOES_ON
from metapl.system.disk import explaining_disk_errors, write_atomically

PREDICTIONS, NOTE = "judged.npz", RUNG

Logits = NDArray[np.float32]  # [N, classes], logarithms of probabilities
Kind = Literal["linear", "heads", "network"]

TITLES = {
    "linear": "logistic regression on the labels",
    "finetuned": "the pretrained network, finetuned",
    "joint": "one head on several networks",
    "joint_finetuned": "one head on several networks and the finetuned one",
    "finetuned_mpl": "the finetuned network with Meta Pseudo Labels",
    "own_network": "a small network trained on your pictures, with patches",
    "self_training": "self-training",
    "label_spreading": "label spreading",
    "aligned": "aligned self-training",
    "uda": "UDA heads",
    "fixmatch": "FixMatch heads",
    "mpl": "Meta Pseudo Labels heads",
    "ensemble": "several rungs together",
    "baseline": "a network, trained on the labels",
    "network": "the same network with Meta Pseudo Labels",
}


class About(NamedTuple):
    """What a rung is called, and what it is."""

    name: str  # of its folder
    title: str  # in tables
    kind: Kind
    uses_unlabeled: bool


class Predictions(NamedTuple):
    """What a rung's model predicts."""

    validation: Logits  # a row of nan: this picture was not predicted by a model that had not seen it
    test: Logits
    unlabeled: Logits  # of a network; heads predict again from the features


class Rung(NamedTuple):
    """A finished rung."""

    about: About
    seconds: float  # that it took, without what other rungs share with it
    predictions: Predictions
    remark: str = ""  # a sentence about how it was made


def finished(out: Path, name: str) -> bool:
    """Whether this rung of a fit is finished."""
    return (out / name / NOTE).is_file()


def write(out: Path, rung: Rung) -> None:
    """Write what the verdict needs beside the rung's run; rung.json comes last."""
    folder = out / rung.about.name
    folder.mkdir(exist_ok=True)
    write_predictions(folder, rung.predictions)
    note: dict[str, Any] = {**rung.about._asdict(), "seconds": round(rung.seconds, 1), "remark": rung.remark}
    write_json(folder / NOTE, note)


def has_predictions(folder: Path) -> bool:
    """Whether predictions were written into this folder."""
    return (folder / PREDICTIONS).is_file()


def write_predictions(folder: Path, predictions: Predictions) -> None:
    """Write predictions into the folder of a run."""
    file = io.BytesIO()
    np.savez_compressed(file, **predictions._asdict())
    with explaining_disk_errors(folder, GOES_ON):
        write_atomically(folder / PREDICTIONS, file.getvalue())


def read_predictions(folder: Path) -> Predictions:
    """Read the predictions in the folder of a run."""
    path = folder / PREDICTIONS
    with explaining_damage(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Predictions(**{key: arrays[key] for key in Predictions._fields})


def read(out: Path, name: str) -> Rung:
    """Read a finished rung."""
    note, predictions = read_json(out / name / NOTE, "seconds", "remark"), read_predictions(out / name)
    seconds, remark = note.pop("seconds"), note.pop("remark")
    with explaining_damage(out / name / NOTE):
        return Rung(About(**note), float(seconds), predictions, remark)


def note_order(out: Path, names: list[str]) -> None:
    """Write which rungs are finished, in their order."""
    write_json(out / "ladder.json", names)


def climbed(out: Path) -> list[str]:
    """The names of the finished rungs, in their order."""
    path = out / "ladder.json"
    with explaining_damage(path):
        return [name for name in json.loads(path.read_text("utf-8")) if finished(out, name)] if path.is_file() else []
