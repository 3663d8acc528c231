"""Other learning rates for other layers: the first layers of a pretrained network learn slowly, or not at all.

    layer 0: the stem;  1, 2, …: each stage, or, in a network with one stage (ViT), each block;  L: the head

    γ_ℓ = γ · decay^(L − ℓ)        (Clark et al., 2020; Bao et al., 2022)

The names of the modules tell the layers: stem…, stageS_…, stageS_blockB, and all others for the head. An encoder
under heads (models/heads.py) is such a network, and the heads are its head. Where a network has adapters
(models/lora.py), these and the head learn, and nothing else does.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metapl.schema import ConfigError
from metapl.types import ADAPTER, STACKED, Array, PyTree

ENCODER = "encoder"
LEARNS, STAYS = "learns", "stays"
_STAGE = re.compile(r"stage(\d+)(?:_block(\d+)$)?")

Path = tuple[jax.tree_util.DictKey, ...]
Layer = int | np.ndarray[Any, Any]  # a number, or one for each block of a stack


def scaled(decay: float) -> optax.GradientTransformation:
    """Multiply the updates of layer ℓ by decay^(L − ℓ)."""

    def update(updates: PyTree, params: PyTree | None) -> PyTree:
        del params
        layers, last = _layers(updates)

        def leaf(path: Path, g: Array) -> Array:
            factor = decay ** np.asarray(last - layers(path, g), np.float32)
            return g * jnp.asarray(factor, g.dtype).reshape(factor.shape + (1,) * (g.ndim - factor.ndim))

        return jax.tree_util.tree_map_with_path(leaf, updates)

    return optax.stateless(update)


def leaving(descent: optax.GradientTransformation, frozen: int) -> optax.GradientTransformationExtraArgs:
    """Apply a descent to the weights that learn; it keeps no state of the others, and their updates are zero."""
    learning = optax.with_extra_args_support(descent)
    parted = optax.partition({LEARNS: learning, STAYS: optax.set_to_zero()}, lambda tree: _labels(tree, frozen))

    def init(params: PyTree) -> PyTree:
        return (parted if _any_stay(params, frozen) else learning).init(params)

    def update(updates: PyTree, state: PyTree, params: PyTree = None, **extra: Any) -> tuple[PyTree, PyTree]:
        return (parted if _any_stay(updates, frozen) else learning).update(updates, state, params, **extra)

    return optax.GradientTransformationExtraArgs(init, update)


def holding(frozen: int) -> Callable[[PyTree], PyTree]:
    """A function that stops the derivatives of weights that do not learn, so that none are computed."""

    def hold(params: PyTree) -> PyTree:
        if not _any_stay(params, frozen):
            return params
        return jax.tree.map(
            lambda leaf, label: leaf if label == LEARNS else jax.lax.stop_gradient(leaf),
            params,
            _labels(params, frozen),
        )

    return hold


def _any_stay(tree: PyTree, frozen: int) -> bool:
    return bool(frozen) or _has_adapters(tree)


def _has_adapters(tree: PyTree) -> bool:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return any(str(getattr(step, "key", "")).endswith(ADAPTER) for path, _ in paths for step in path)


def _labels(tree: PyTree, frozen: int) -> PyTree:
    adapters = _has_adapters(tree)
    layers, last = _layers(tree)
    if frozen > last:
        raise ConfigError(f"frozen_layers = {frozen} would leave nothing to learn: the network has {last + 1} layers")

    def label(path: Path, leaf: Array) -> str:
        layer = np.asarray(layers(path, leaf))
        if (layer < frozen).any() and (layer >= frozen).any():
            raise ConfigError(f"frozen_layers = {frozen} ends inside the loop of blocks; set scan = false")
        adapted = any(str(step.key).endswith(ADAPTER) for step in path)
        learns = (layer >= frozen).all() and (adapted or not adapters or (layer == last).all())
        return LEARNS if learns else STAYS

    return jax.tree_util.tree_map_with_path(label, tree)


def _layers(tree: PyTree) -> tuple[Callable[[Path, Array], Layer], int]:
    """The function that gives a weight's layer, and the number of the last one."""
    names = list(tree.get(ENCODER, tree))
    matches = [match for match in map(_STAGE.match, names) if match]
    if not matches:
        raise ConfigError(
            "layer_decay, frozen_layers and adapters need a network with a stem and stages; an mlp has none"
        )
    stages = sorted({int(match[1]) for match in matches})
    own = tree.get(ENCODER, tree)
    stacks = (_length(own[name]) for name in names if name.endswith(STACKED))
    last = 1 + (len(stages) if len(stages) > 1 else sum(bool(match[2]) for match in matches) + sum(stacks))

    def layer(path: Path, leaf: Array) -> Layer:
        top = str(path[1 if str(path[0].key) == ENCODER else 0].key)
        if ENCODER in tree and str(path[0].key) != ENCODER:
            return last
        match = _STAGE.match(top)
        if match is None:
            return 0 if top.startswith("stem") else last
        if len(stages) > 1:
            return 1 + stages.index(int(match[1]))
        # The blocks of a stack are those after the first.
        return 2 + np.arange(len(leaf)) if top.endswith(STACKED) else 1 + int(match[2] or 0)

    return layer, last


def _length(stack: PyTree) -> int:
    """How many blocks are stacked."""
    return len(jax.tree.leaves(stack)[0])
