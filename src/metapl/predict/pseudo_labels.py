"""A run's probabilities for a folder of unlabelled pictures, as `metapl data select` reads them.

NAME.npy has a row for each picture in the order of `metapl data check`; NAME.txt has a line with each picture's path.
A picture that cannot be read has a row of zeros, which is never selected, and a line in NAME.errors.csv. A command that
was stopped, or that crashed, continues where it was (`inference/predictions_file.py`). Files of another run or of other
pictures are never overwritten.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metapl.data.reading.find_pictures import FoundPicture, walk
from metapl.data.sources import folder
from metapl.data.sources.source import Files
from metapl.data.splits import manifest
from metapl.evaluate.predictor import Predictor
from metapl.inference.predictions_file import Origin, PredictionsFile, weights_sha256
from metapl.predict.predictions import predict_batches
from metapl.predict.text import on_a_line, path_cell
from metapl.schema import ConfigError, to_dict
from metapl.system.disk import write_atomically

Say = Callable[[str], None]
Advance = Callable[[int], None]  # so many more pictures are done


class LabeledPictures(NamedTuple):
    """What was written."""

    pictures: int
    unreadable: int
    names: Path  # the file with the pictures' paths
    errors: Path  # the file with the pictures that could not be read, if there are any


def label_pictures(predictor: Predictor, place: Path, out: Path, say: Say, advance: Advance) -> LabeledPictures:
    """Predict every picture of a folder, or continue a file that was left, and write the files beside `out`."""
    predictor.check_takes_pictures()
    paths = pictures_of(place, say)
    names, errors = out.with_suffix(".txt"), out.with_suffix(".errors.csv")
    file = PredictionsFile(out, origin_of(predictor, paths), len(predictor.class_names))
    done, details = file.progress(beside=(file.note, names, errors))
    unreadable = {int(row): str(problem) for row, problem in details.get("unreadable", {}).items()}
    if out.exists():
        say(f"{out} is complete: nothing to do")
        return LabeledPictures(len(paths), len(unreadable), names, errors)
    if done:
        say(f"continuing after {done:,} of {len(paths):,} pictures")
        advance(done)
    for predictions in predict_batches(predictor, map(FoundPicture, paths[done:])):
        rows = np.zeros((len(predictions), len(predictor.class_names)), np.float16)
        for row, prediction in enumerate(predictions):
            if prediction.probabilities is None:
                unreadable[done + row] = prediction.problem
            else:
                rows[row] = prediction.probabilities
        file.write(done, rows, {"unreadable": unreadable})
        done += len(predictions)
        advance(len(predictions))
    write_atomically(names, "".join(f"{on_a_line(str(path))}\n" for path in paths).encode())
    if unreadable:
        _write_errors(errors, paths, unreadable)
    file.finish()
    return LabeledPictures(len(paths), len(unreadable), names, errors)


def pictures_of(place: Path, say: Say) -> list[Path]:
    """List the pictures of a folder, in the order of `metapl data check`."""
    if not place.is_dir():
        raise ConfigError(f"{place} is not a folder of pictures")
    usual = folder.Folder()
    if (place / usual.labeled).is_dir() and (place / usual.unlabeled).is_dir():
        place = place / usual.unlabeled
        say(f"taking {place}")
    pictures = list(walk(place))
    for picture in pictures:
        if picture.problem:
            raise ConfigError(f"{picture.path} cannot be read: {picture.problem}")
    if not pictures:
        raise ConfigError(f"{place} has no pictures in it or below it")
    return [picture.path for picture in pictures]


def origin_of(predictor: Predictor, paths: Sequence[Path]) -> Origin:
    """All that the predictions depend on; equal for equal files."""
    return {
        "classes": list(predictor.class_names),
        "model": to_dict(predictor.config.stage_models[-1]),
        "view": to_dict(predictor.config.augmentation),
        "temperature": predictor.temperature,
        "weights_sha256": weights_sha256(predictor.weights),
        "pictures_sha256": manifest.sha256(manifest.bytes_of_images(Files(tuple(paths)))),
        "rows": len(paths),
    }


def _write_errors(file: Path, paths: Sequence[Path], problems: dict[int, str]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(["row", "path", "error"])
        rows.writerows([row, path_cell(paths[row]), problem] for row, problem in sorted(problems.items()))
