"""The folder of a finished run that nobody has trained: real pictures, a small network with random weights."""

import csv
import json
from pathlib import Path

import jax
import numpy as np

from metapl import config as configs
from metapl import data, models, rundir, weights
from metapl.rundir import Begun
from metapl.schema import to_dict

from ..data.pictures import noise, save

CLASSES = ('<script>alert(1)</script> "x" ñ', "a name that is rather long and has no end in sight", "cat", "d'og & 三")
EACH = 3  # labelled pictures of each class
ACCURACY = 0.8125

SETTINGS = """
[data]
name = "csv"
file = "pictures.csv"
size = 8
[augmentation]
weak = {flip = false, shift_pixels = 0}
[model]
hidden = [16]
activation = "relu"
[[stages]]
steps = 5
method = {name = "supervised", optimizer.learning_rate = 0.2}
"""


def make(place: Path) -> Path:
    """Write pictures.csv and its pictures into place/data, and the run into place/run."""
    write_pictures(place / "data")
    config = configs.parse(SETTINGS, "test")
    dataset = data.load(config.data, [0], [place / "data"])[0]
    network = models.build(config.model, len(dataset.class_names))
    values = network.init(jax.random.key(1), np.zeros((1, *dataset.labeled.shape[1:]), np.float32))
    values = jax.tree.map(lambda leaf: 10 * leaf, values)  # so that its answers differ
    run = place / "run"
    run.mkdir()
    rundir.write(run, Begun(config, (0,), 1, [place / "data"]), dataset.manifest)
    example = weights.Example(dataset.labeled.shape[1:], "uint8")
    weights.save(run / "weights.safetensors", values, to_dict(config.model), dataset.class_names, example)
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
