"""Make an optax transformation from an optimizer's settings."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import optax
import optax.contrib

from metapl.optim import by_layer
from metapl.optim.schedule import learning_rate
from metapl.optim.settings import Optimizer
from metapl.schema import ConfigError
from metapl.types import STACKED, Array, PyTree

# Names of parameters that are not kernels: those of norms, and a transformer's positions and tokens.
NOT_KERNELS = ("bias", "scale", "stem_position", "stem_token", "stem_registers")


class Descent(NamedTuple):
    """An optimizer: optax's two functions, the settings' `average_decay`, and what holds weights that stay."""

    init: optax.TransformInitFn
    update: optax.TransformUpdateExtraArgsFn
    average_decay: float
    sam: bool = False  # then `update` also needs grad_fn(params, _), the gradient at other weights
    hold: Callable[[PyTree], PyTree] = lambda params: params  # stops the derivatives of weights that do not learn


def build(config: Optimizer, total_steps: int) -> Descent:
    """Chain clipping, weight decay, the rule with its momentum, the schedule, layers' factors; SAM around them."""
    config.check_steps(total_steps)
    parts = []
    if config.clip_norm:
        parts.append(optax.clip_by_global_norm(config.clip_norm))
    if config.weight_decay and config.rule != "adamw":
        mask = None if config.decay_norm_and_bias else _is_kernel
        parts.append(optax.add_decayed_weights(config.weight_decay, mask=mask))
    parts.append(_rule(config, learning_rate(config, total_steps)))
    if config.layer_decay < 1:
        parts.append(by_layer.scaled(config.layer_decay))
    if config.only != "all":
        parts.append(optax.masked(optax.set_to_zero(), partial(_is_kept, config.only)))
    chain = by_layer.leaving(optax.chain(*parts), config.frozen_layers)
    if config.sam:
        chain = _sam(chain, config.sam)
    hold = by_layer.holding(config.frozen_layers)
    return Descent(chain.init, chain.update, config.average_decay, bool(config.sam), hold)


def _sam(descent: optax.GradientTransformation, radius: float) -> optax.GradientTransformationExtraArgs:
    """θ' = the descent's step with ∇ at θ + ρ ∇ / ‖∇‖, on the same batch."""
    ascent = optax.chain(optax.normalize_by_update_norm(), optax.sgd(radius))
    return optax.contrib.sam(descent, ascent, opaque_mode=True)


def _rule(config: Optimizer, rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    """Build one of four, with γ the step's rate, m the momentum and g the gradient after clipping and decay:

    sgd      u ← g + m u                   θ' = θ − γ u        (Nesterov: θ − γ (g + m u))
    rmsprop  u ← γ g / √(ms + ε) + m u     θ' = θ − u          ms: a moving average of g²
    lars     u ← γ η ‖θ‖ / ‖g‖ · g + m u   θ' = θ − u          for each kernel; for biases and scales u ← γ g + m u
    adamw    θ' = θ − γ (m̂ / (√v̂ + 1e-8) + λ θ)               m̂, v̂: unbiased averages of g and g²; λ: weight decay

    rmsprop and lars have γ inside u, as in TensorFlow and You et al. (2017): a fall of γ does not change the momentum
    so far. ms starts at 1, as in the TF1 that the authors used: small gradients take small steps at first, for about 1
    / (1 − rms_decay) steps. You et al. divide by ‖∇‖ + λ ‖θ‖ where optax has ‖∇ + λ θ‖: the same without weight decay
    λ; with it, optax's update is never the smaller one.
    """
    match config.rule:
        case "sgd":
            return optax.sgd(rate, config.momentum or None, config.nesterov)
        case "rmsprop":
            return optax.rmsprop(
                rate, config.rms_decay, config.rms_epsilon, initial_scale=1.0, momentum=config.momentum or None
            )
        case "lars":
            return optax.chain(
                optax.masked(_trust_ratio(config), _is_kernel),
                optax.scale_by_learning_rate(rate),
                optax.trace(config.momentum, config.nesterov),
            )
        case "adamw":
            mask = None if config.decay_norm_and_bias else _is_kernel
            return optax.adamw(rate, config.momentum, config.adam_decay, weight_decay=config.weight_decay, mask=mask)


def _trust_ratio(config: Optimizer) -> optax.GradientTransformation:
    """Scale the update of each kernel by its layer's η ‖θ‖ / ‖g‖; each block of a stack is a layer."""
    layer = optax.scale_by_trust_ratio(trust_coefficient=config.trust_coefficient)

    def update(updates: PyTree, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
        def scale(g: Array, theta: Array) -> Array:
            return layer.update(g, state, theta)[0]

        def leaf(path: tuple[jax.tree_util.DictKey, ...], g: Array, theta: Array) -> Array:
            stacked = any(str(step.key).endswith(STACKED) for step in path)
            return jax.vmap(scale)(g, theta) if stacked else scale(g, theta)

        return jax.tree_util.tree_map_with_path(leaf, updates, params), state

    return optax.GradientTransformation(layer.init, update)


def _is_kept(only: str, params: PyTree) -> PyTree:
    """Return which weights do not train: all but the classifier, which is called `head`, and perhaps the norms."""
    if "head" not in params:
        raise ConfigError(f"optimizer.only = {only!r} needs a network with a classifier called head; an mlp has none")

    def kept(path: tuple[jax.tree_util.DictKey, ...], _: Array) -> bool:
        names = [str(step.key) for step in path]
        in_norm = only == "classifier_and_norms" and any("norm" in name for name in names)
        return names[0] != "head" and not in_norm

    return jax.tree_util.tree_map_with_path(kept, params)


def _is_kernel(params: PyTree) -> PyTree:
    """Return which weights are kernels, by their names: by shape, the scales of stacked layers would be, too."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key not in NOT_KERNELS, params)
