"""Heads of a rung: what they predict from features, and their weights in a file beside the rung's run."""

import io
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metapl import models
from metapl.fit.encoded import Values
from metapl.fit.rung import Logits
from metapl.models.assemble import Head
from metapl.models.mlp import MLP
from metapl.system.disk import write_atomically
from metapl.types import Weights

FILE = "heads.npz"

SMALLEST = 1e-30  # keeps the logarithm of a probability finite


def log_probabilities(heads: Sequence[Head], features: Values) -> Logits:
    """The logarithm of the mean over heads of the probabilities they give: [N, classes]."""
    total = np.mean([_probabilities(head, features) for head in heads], axis=0)
    return np.log(np.maximum(total, SMALLEST)).astype(np.float32)


def _probabilities(head: Head, features: Values) -> Logits:
    classes = int(np.shape(head.weights.params[f"Dense_{len(head.model.hidden)}"]["bias"])[-1])
    if not len(features):
        return np.zeros((0, classes), np.float32)
    network = models.build(head.model, classes)
    logits, _ = network.apply(head.weights.params, head.weights.stats, jnp.asarray(features), train=False)
    return np.asarray(jax.nn.softmax(logits))


def keep(folder: Path, heads: Sequence[Head]) -> None:
    """Write the heads' weights, for ensembles and for predictions from features."""
    arrays = {
        f"{number}/{layer}/{leaf}": np.asarray(value)
        for number, head in enumerate(heads)
        for layer, leaves in head.weights.params.items()
        for leaf, value in leaves.items()
    }
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    folder.mkdir(exist_ok=True)
    write_atomically(folder / FILE, file.getvalue())


def kept(folder: Path) -> list[Head]:
    """Read the heads of a rung."""
    params: dict[int, dict[str, dict[str, jax.Array]]] = {}
    with np.load(folder / FILE, allow_pickle=False) as arrays:
        for name in arrays.files:
            number, layer, leaf = name.split("/")
            params.setdefault(int(number), {}).setdefault(layer, {})[leaf] = jnp.asarray(arrays[name])
    return [Head(_model(layers), Weights(layers, {})) for _, layers in sorted(params.items())]


def _model(layers: dict[str, dict[str, jax.Array]]) -> MLP:
    """The perceptron that has such layers."""
    hidden = tuple(int(layers[f"Dense_{number}"]["bias"].shape[-1]) for number in range(len(layers) - 1))
    return MLP(hidden=hidden, activation="relu")
