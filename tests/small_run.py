"""The folder of a finished run with the pictures that it was trained with; nobody has trained it."""

import csv
import json
from pathlib import Path

from metapl import config as configs
from metapl.data import pictures
from metapl.runs import run_folder
from metapl.runs.run_folder import RunSettings
from metapl.weights import Example
from tests.data.pictures import noise, save
from tests.tiny_run import make_run

CLASSES = ('<script>alert(1)</script> "x" ñ', "a name that is rather long and has no end in sight", "cat", "d'og & 三")
EACH = 3  # labelled pictures of each class
ACCURACY = 0.8125

SETTINGS = """
[data]
name = "csv"
file = "pictures.csv"
size = 8
[model]
hidden = [16]
activation = "relu"
"""


def make(place: Path) -> Path:
    """Write pictures.csv and its pictures into place/data, and the run into place/run."""
    write_pictures(place / "data")
    config = configs.parse(SETTINGS, "test")
    dataset = pictures.load(config.data, [place / "data"])
    run = make_run(place / "run", SETTINGS, dataset.class_names, Example((8, 8, 3), "uint8"))
    run_folder.write(run, RunSettings(config, (0,), 1, [place / "data"]), dataset.manifest)
    (run / "result.json").write_text(json.dumps({"final": {"accuracy": {"seeds": {"0": ACCURACY}}}}))
    return run


def write_pictures(folder: Path) -> None:
    folder.mkdir()
    with (folder / "pictures.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "split"])
        for i, name in enumerate(CLASSES):
            for k in range(EACH):
                save(folder, f"{i}-{k}.png", noise(10 * i + k))
                table.writerow([f"{i}-{k}.png", name, "train"])
        save(folder, "test.png", noise(99))
        table.writerow(["test.png", CLASSES[0], "test"])
