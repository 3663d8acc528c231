"""A trained network that predicts classes of new pictures, loaded from the folder of a run, without its data.

Two kinds of folders can be loaded: that of a finished `metapl train`, and that of `metapl fit`, whose model.json names
the chosen run inside it and the temperature that logits are divided by. Nothing in the files is executed.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl import models
from metapl.config import Config
from metapl.data.reading.decode import decode_bytes, decode_file
from metapl.data.reading.resize import TO_SCALE, centre_part, to_grey
from metapl.evaluate.finished_run import settings, weight_files
from metapl.inference.batches import PREDICTION, most_at_once
from metapl.inference.forward import Forward, Output, of_network, weight_shapes
from metapl.schema import ConfigError
from metapl.types import Network, Weights
from metapl.weights import Example, about, load_all

MODEL, ASKED = "model.json", "fit.json"  # of `metapl fit`: what it ends and begins with
RUNG = "rung.json"  # beside the run of a fit's rung: what it is
FORMAT = 1

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Probabilities = NDArray[np.float32]  # [N, classes]


class Chosen(NamedTuple):
    """The run of a folder that predicts, and the temperature that its logits are divided by."""

    run: Path
    temperature: float


@dataclass(frozen=True, eq=False)
class Predictor:
    """A run's network, as functions of examples."""

    config: Config
    network: Network
    weights: Weights
    class_names: tuple[str, ...]
    example: Example
    """The shape and type of examples that the network takes: pictures (height, width, channels) of uint8, or points
    (features,) of float32."""
    temperature: float = 1.0
    """Logits are divided by it: above 1, predictions are less sure."""
    run: Path = Path()
    """The folder of the run that the weights come from."""
    seed: int = 0
    """The seed of the run that the weights come from."""

    @property
    def rung(self) -> str:
        """The title of the rung of a fit that the weights come from; empty if it is none."""
        try:
            return str(json.loads((self.run / RUNG).read_text("utf-8"))["title"])
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    @property
    def takes_pictures(self) -> bool:
        """Whether examples are pictures; otherwise they are points, rows of numbers."""
        return self.example.dtype == "uint8"

    def probabilities(self, examples: NDArray[np.generic]) -> Probabilities:
        """Probability of each class for each stored example: [N, classes]."""
        self._check(examples)
        return of_network(self.forward("probabilities"), self.weights, examples, PREDICTION)

    def features(self, examples: NDArray[np.generic]) -> NDArray[np.float32]:
        """What the classifier is given for each example, [N, D]: near for examples that the network finds similar."""
        self._check(examples)
        return of_network(self.forward("features"), self.weights, examples, PREDICTION)

    def read(self, path: Path) -> Pictures:
        """Read a picture file as training does: [H, W, C], ready for the network; BadImage if it cannot be read."""
        self.check_takes_pictures()
        return self.fit(decode_file(path, self._enough()))

    def read_bytes(self, data: bytes, name: str) -> Pictures:
        """Read an encoded picture from memory, as `read` does; `name` is for errors."""
        self.check_takes_pictures()
        return self.fit(decode_bytes(data, name, self._enough()))

    def _enough(self) -> int:
        """Pixels on the shorter side of a picture that is scaled to the size that the network takes."""
        return TO_SCALE * max(self.example.shape[:2])

    def fit(self, picture: Pictures) -> Pictures:
        """Bring a decoded picture, [H, W, 3] of any size, to the size and channels that the network takes."""
        height, width, channels = self.example.shape
        return centre_part(to_grey(picture) if channels == 1 else picture, height, width)

    def forward(self, output: Output) -> Forward:
        """The pure function (weights, stored examples) -> output, all preprocessing included; for export, too."""
        return Forward(self.network, self.config.augmentation, output, self.temperature)

    def batch_size(self) -> int:
        """How many examples are in a batch, if there are many."""
        return most_at_once(PREDICTION, self.example.shape, self.config.augmentation, self.network)

    def _check(self, examples: NDArray[np.generic]) -> None:
        if examples.shape[1:] != self.example.shape or examples.dtype != self.example.dtype:
            raise ConfigError(
                f"the model takes {self.example.dtype} [N, {', '.join(map(str, self.example.shape))}], got "
                f"{examples.dtype} {list(examples.shape)}"
            )

    def check_takes_pictures(self) -> None:
        """Raise ConfigError for a run that was trained on points."""
        if not self.takes_pictures:
            raise ConfigError("the run was trained on points, not on pictures: it cannot predict picture files")


def load(folder: Path, seed: int | None = None) -> Predictor:
    """Load a run, or the run that `metapl fit` chose: the weights of `seed`, or of the run's first seed."""
    run, temperature = choose(folder)
    config = settings(run)
    seed, file = _of_seed(weight_files(run, config), seed, run)
    class_names, example = about(file)
    example = example or _from_settings(config, file)
    network = models.build(config.stage_models[-1], len(class_names))
    like = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    expected = weight_shapes(network, config.augmentation, like)
    weights = jax.tree.map(jnp.asarray, load_all(file, expected))
    return Predictor(config, network, weights, class_names, example, temperature, run, seed)


def choose(folder: Path) -> Chosen:
    """Find the run in a folder: the folder itself, or what model.json in it names."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not the folder of a run; metapl runs lists the runs")
    file = folder / MODEL
    if not file.exists() and (folder / ASKED).exists():
        raise ConfigError(f"{folder}: its metapl fit has not finished; the same metapl fit command continues it")
    if not file.exists():
        return Chosen(folder, 1.0)
    try:
        model = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if not isinstance(model, dict) or model.get("format") != FORMAT:
        raise ConfigError(f"{file} does not have format {FORMAT}, the only one that this version reads")
    return Chosen(folder / _inside(model.get("run"), file), _temperature(model.get("temperature"), file))


def _inside(name: Any, file: Path) -> str:
    """Check that `name` is the plain name of a folder beside model.json, not a path to somewhere else."""
    plain = isinstance(name, str) and name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name)
    if not plain or not (file.parent / name).resolve().is_relative_to(file.parent.resolve()):
        raise ConfigError(f"{file}: run takes the name of a folder beside the file, got {name!r}")
    return str(name)


def _temperature(value: Any, file: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{file}: temperature takes a number above 0, got {value!r}")
    return float(value)


def _of_seed(files: dict[int, Path], seed: int | None, run: Path) -> tuple[int, Path]:
    if seed is None:
        return next(iter(files.items()))
    if seed not in files:
        raise ConfigError(f"{run} has no weights of seed {seed}; it has seeds {', '.join(map(str, files))}")
    return seed, files[seed]


def _from_settings(config: Config, file: Path) -> Example:
    """Shape of the examples, for weight files that do not note it: known if the settings have a size."""
    size = getattr(config.data, "size", 0)
    if not size:
        raise ConfigError(f"{file} does not say how large its pictures are: an older version wrote it; train it again")
    return Example((size, size, 3), "uint8")
