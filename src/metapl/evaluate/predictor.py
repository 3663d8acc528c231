"""A trained network, ready to be asked about new pictures: from the folder of a run alone, without its data.

Two kinds of folders can be loaded: that of a finished `metapl train`, and that of `metapl fit`, whose model.json names
the run inside it that was chosen and the temperature that its answers are divided by. Nothing in the files is executed.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from numpy.typing import NDArray

from metapl import models
from metapl.augment.views import eval_view
from metapl.config import Config
from metapl.data.reading.decode import decode_bytes, decode_file
from metapl.data.reading.resize import centre_part, to_grey
from metapl.evaluate.again import own_weights, settings, weight_files
from metapl.schema import ConfigError
from metapl.types import Array, Network, Weights
from metapl.weights import Example, about

MODEL, ASKED = "model.json", "fit.json"  # of `metapl fit`: what it ends and begins with
FORMAT = 1

# Examples are answered in batches of three sizes, so that there are three programs to compile at most: one alone, a
# few, and as many as keep the machine busy without filling its memory (256 pictures of 64², 20 of 224²).
FEW, MANY, MANY_PIXELS = 16, 256, 2**20

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Answers = NDArray[np.float32]  # [N, classes]


class Chosen(NamedTuple):
    """Which run of a folder answers, and how sure its answers are made."""

    run: Path
    temperature: float


@dataclass(frozen=True, eq=False)
class Predictor:
    """What a run has learnt, as functions of examples."""

    config: Config
    network: Network
    weights: Weights
    class_names: tuple[str, ...]
    example: Example
    """What examples look like that can be asked about: (height, width, channels) of uint8, or points of float32."""
    temperature: float = 1.0
    """Logits are divided by it: above 1, answers are less sure."""
    run: Path = Path()
    """The folder of the run that the weights are of."""
    seed: int = 0
    """Which of its seeds they are of."""

    @property
    def takes_pictures(self) -> bool:
        """Or else points: rows of numbers."""
        return self.example.dtype == "uint8"

    def probabilities(self, examples: NDArray[np.generic]) -> Answers:
        """How probable each class is for each example, as it is stored: [N, classes]."""
        return self._in_batches(self._answer, examples)

    def features(self, examples: NDArray[np.generic]) -> NDArray[np.float32]:
        """What the classifier is given of each example, [N, D]: near for examples that the network finds alike."""
        return self._in_batches(self._describe, examples)

    def read(self, path: Path) -> Pictures:
        """Read a picture file as training does: [H, W, C], ready to be asked about; BadImage if it cannot be."""
        self.check_takes_pictures()
        return self.fit(decode_file(path))

    def read_bytes(self, data: bytes, name: str) -> Pictures:
        """Read an encoded picture from memory, as `read` does; `name` is for errors."""
        self.check_takes_pictures()
        return self.fit(decode_bytes(data, name))

    def fit(self, picture: Pictures) -> Pictures:
        """Bring a decoded picture, [H, W, 3] of any size, to the size and the channels that are asked about."""
        height, width, channels = self.example.shape
        return centre_part(to_grey(picture) if channels == 1 else picture, height, width)

    def forward(self, weights: Weights, examples: Array) -> Array:
        """Probabilities of stored examples, all preprocessing included; pure, to be compiled or exported."""
        view = eval_view(self.config.augmentation)
        logits, _ = self.network.apply(weights.params, weights.stats, view(examples), train=False)
        return jax.nn.softmax(logits.astype(jnp.float32) / self.temperature)

    def describe(self, weights: Weights, examples: Array) -> Array:
        """Compute what the last dense layer is given; pure."""
        given: list[Array] = []

        def note(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
            if isinstance(context.module, nn.Dense):
                given.append(args[0])
            return call(*args, **kwargs)

        with nn.intercept_methods(note):
            self.forward(weights, examples)
        return given[-1]

    @cached_property
    def _answer(self) -> Callable[[Weights, Array], Array]:
        return jax.jit(self.forward)

    @cached_property
    def _describe(self) -> Callable[[Weights, Array], Array]:
        return jax.jit(self.describe)

    def batch_size(self) -> int:
        """How many examples are answered at a time, where there are many."""
        sides = (*self.example.shape[:2], self.config.augmentation.size) if self.takes_pictures else (1,)
        return max(1, min(MANY, MANY_PIXELS // max(sides) ** 2))

    def _in_batches(
        self, function: Callable[[Weights, Array], Array], examples: NDArray[np.generic]
    ) -> NDArray[np.float32]:
        self._check(examples)
        found = []
        for start, size in batches(len(examples), self.batch_size()):
            some = examples[start : start + size]
            filled = np.concatenate([some, np.repeat(some[-1:], size - len(some), 0)]) if len(some) < size else some
            found.append(np.asarray(function(self.weights, jnp.asarray(filled)))[: len(some)])
        if not found:
            width = jax.eval_shape(function, self.weights, self._one()).shape[1]
            return np.zeros((0, width), np.float32)
        return np.concatenate(found)

    def _one(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((1, *self.example.shape), self.example.dtype)

    def _check(self, examples: NDArray[np.generic]) -> None:
        if examples.shape[1:] != self.example.shape or examples.dtype != self.example.dtype:
            raise ConfigError(
                f"the model takes {self.example.dtype} [N, {', '.join(map(str, self.example.shape))}], got "
                f"{examples.dtype} {list(examples.shape)}"
            )

    def check_takes_pictures(self) -> None:
        """Refuse a run that was trained on points: it cannot be asked about files."""
        if not self.takes_pictures:
            raise ConfigError("the run was trained on points, not on pictures: it cannot be asked about files")


def batches(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Where each batch begins, and its size, the last one's to be filled up: large ones, then a few small ones."""
    start, few = 0, min(FEW, most)
    while start < count:
        rest = count - start
        size = most if 2 * rest > most else few
        yield start, 1 if rest == 1 else size
        start += size


def load(folder: Path, seed: int | None = None) -> Predictor:
    """Load the weights of a run, or of the run that `metapl fit` chose; of several seeds the first or the named one."""
    run, temperature = choose(folder)
    config = settings(run)
    seed, file = _of_seed(weight_files(run, config), seed, run)
    class_names, noted = about(file)
    example = noted or _from_settings(config, file)
    network = models.build(config.stage_models[-1], len(class_names))
    weights = jax.tree.map(jnp.asarray, own_weights(file, _shapes(config, network, example)))
    return Predictor(config, network, weights, class_names, example, temperature, run, seed)


def choose(folder: Path) -> Chosen:
    """Find the run in a folder: the folder itself, or what model.json in it names."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not the folder of a run")
    file = folder / MODEL
    if not file.exists() and (folder / ASKED).exists():
        raise ConfigError(f"{folder} is of a metapl fit that has not come to its end; the same command goes on with it")
    if not file.exists():
        return Chosen(folder, 1.0)
    try:
        noted = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if not isinstance(noted, dict) or noted.get("format") != FORMAT:
        raise ConfigError(f"{file} does not have the format {FORMAT}, which is all that this version reads")
    return Chosen(folder / _inside(noted.get("run"), file), _temperature(noted.get("temperature"), file))


def _inside(name: Any, file: Path) -> str:
    """Take the plain name of a folder beside model.json; nothing that leads elsewhere."""
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
        raise ConfigError(f"{run} has no weights of seed {seed}; it has those of {', '.join(map(str, files))}")
    return seed, files[seed]


def _from_settings(config: Config, file: Path) -> Example:
    """What examples look like, for weights from before files said so: known where the settings have a size."""
    size = getattr(config.data, "size", 0)
    if not size:
        raise ConfigError(f"{file} does not say how large its pictures are; it is of an older version: train it again")
    return Example((size, size, 3), "uint8")


def _shapes(config: Config, network: Network, example: Example) -> Weights:
    """What the network's weights look like for such examples, without making any."""
    view = eval_view(config.augmentation)
    one = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    return jax.eval_shape(lambda key, one: network.init(key, view(one)), jax.random.key(0), one)
