"""The folder of a fit, as far as `metapl label` reads it."""

import csv
import json
from pathlib import Path

from PIL import Image

CLASSES = ("cat", "dog", "<b>bird</b>")


def make(place: Path) -> Path:
    """Six unlabelled pictures, three of which are to be labelled; one of them is unreadable."""
    fit, pictures = place / "fit", place / "pictures"
    pictures.mkdir()
    fit.mkdir()
    paths = [pictures / f"{number}.png" for number in range(8)]
    for number, path in enumerate(paths):
        Image.new("RGB", (40 + number, 30), (30 * number, 0, 0)).save(path)
    with (fit / "pictures.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "split"])
        for number, path in enumerate(paths):
            labeled = number < len(CLASSES) - 1
            writer.writerow([path, CLASSES[number] if labeled else "", "labeled" if labeled else "unlabeled"])
    guess = {"prediction": "dog", "probability": 0.5, "second": "cat", "second_probability": 0.25}
    asked = [{"path": str(path), **guess} for path in (paths[5], paths[3], paths[7])]
    (fit / "verdict.json").write_text(json.dumps({"label_next": asked}))
    (fit / "fit.json").write_text(json.dumps({"format": 2}))
    (fit / "data.json").write_text(json.dumps({"class_names": CLASSES}))
    paths[7].write_bytes(b"no picture")
    return fit
