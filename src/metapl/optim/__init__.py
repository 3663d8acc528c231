"""Make an optax transformation from settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from annotated_types import Ge, Gt, Le, Lt

from metapl.optim import by_layer
from metapl.schema import ConfigError
from metapl.types import STACKED, Array, PyTree

# Names of parameters that are not kernels: those of norms, and a transformer's positions and tokens.
NOT_KERNELS = ("bias", "scale", "stem_position", "stem_token", "stem_registers")


@dataclass(frozen=True)
class Optimizer:
    """How a network's gradients become its update. The default is the paper's TwoMoon: plain SGD."""

    learning_rate: Annotated[float, Gt(0)] = 0.1
    """Step size, after warm-up and before decay."""
    schedule: Literal["constant", "cosine", "exponential"] = "constant"
    """How the learning rate changes: not at all, as a cosine to 0 at the stage's last step, or as a staircase."""
    warmup_steps: Annotated[int, Ge(0)] = 0
    """Steps in which the learning rate rises linearly from 0."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the last update that is kept."""
    nesterov: bool = False
    """Look ahead along the momentum (the paper's choice for its ResNets, with 0.9)."""
    weight_decay: Annotated[float, Ge(0)] = 0.0
    """L2 penalty, added to the gradient of every weight that is not a bias or a scale; rule `adamw`: to the update."""
    clip_norm: Annotated[float, Ge(0)] = 0.0
    """Largest norm of the gradient; 0: no limit."""
    rule: Literal["sgd", "rmsprop", "lars", "adamw"] = "sgd"
    """What scales the gradient: sgd: nothing; rmsprop: its own recent size (the paper's EfficientNets); lars: the size
    of each layer's weights; adamw: its own recent size, with `momentum` as β₁ (usual for transformers)."""
    decay_norm_and_bias: bool = False
    """Apply weight decay to biases and batch-norm scales, too."""
    decay_factor: Annotated[float, Gt(0), Le(1)] = 0.97
    """Schedule `exponential`: factor of the learning rate at each fall (EfficientNet: 0.97)."""
    decay_every_steps: Annotated[int, Ge(0)] = 0
    """Schedule `exponential`: steps between two falls, counted from the stage's start (EfficientNet: 2.4 epochs)."""
    rms_decay: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Rule `rmsprop`: share of the mean square that each step keeps."""
    rms_epsilon: Annotated[float, Gt(0)] = 0.001
    """Rule `rmsprop`: added to the mean square, inside the square root as in TensorFlow."""
    trust_coefficient: Annotated[float, Gt(0)] = 0.001
    """Rule `lars`: length of a layer's update, as a share of its weights' length, at a learning rate of 1."""
    adam_decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """Rule `adamw`: share of the mean square that each step keeps (β₂)."""
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    """Factor of the learning rate from each layer to the one before it, for pretrained networks (ViT: 0.65 to 0.75).
    The head has the full rate; before it come the stages (in a ViT the blocks), and the stem is the first layer."""
    frozen_layers: Annotated[int, Ge(0)] = 0
    """Keep the weights of the first so many layers as they are: 1 is the stem, 2 the stem and the first stage (in a
    ViT the first block), and so on. Running statistics of batch norm still move."""
    sam: Annotated[float, Ge(0)] = 0.0
    """ρ of SAM (Foret et al., 2021): take the gradient at the worst point at this distance, which finds flat minima;
    twice the work. 0: take it where the weights are. The authors: 0.05."""
    only: Literal["all", "classifier", "classifier_and_norms"] = "all"
    """Which weights to train: all; the classifier (a linear probe); or the classifier and the scales and biases of all
    norms (FixRes). Running statistics of batch norm always move."""
    average_decay: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Evaluate, and give to the next stage, a moving average of the weights that keeps this share at each step; 0: the
    weights themselves."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        if self.nesterov and self.rule == "rmsprop":
            raise ValueError("nesterov does not go with rule 'rmsprop', whose momentum is TensorFlow's")
        if self.rule == "adamw" and (self.nesterov or not self.momentum):
            raise ValueError("rule 'adamw' needs a momentum above 0 (usually 0.9), and no nesterov")
        if self.schedule == "exponential" and not self.decay_every_steps:
            raise ValueError("schedule 'exponential' needs decay_every_steps above 0")

    def check_steps(self, total_steps: int) -> None:
        """Raise ConfigError if the stage ends before the warm-up does."""
        if self.schedule == "cosine" and self.warmup_steps >= total_steps:
            raise ConfigError(f"warmup_steps ({self.warmup_steps}) must be fewer than the stage's {total_steps} steps")


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
    parts.append(_rule(config, _schedule(config, total_steps)))
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


def _schedule(config: Optimizer, total_steps: int) -> optax.ScalarOrSchedule:
    rate, warmup = config.learning_rate, config.warmup_steps
    if config.schedule == "cosine":
        return optax.warmup_cosine_decay_schedule(0.0, rate, warmup, total_steps)
    if config.schedule == "exponential":
        rise = optax.linear_schedule(0.0, rate, warmup)
        return lambda step: jnp.where(step < warmup, rise(step), _staircase(config, step))
    if warmup:
        return optax.linear_schedule(0.0, rate, warmup)
    return rate


def _staircase(config: Optimizer, step: Array) -> Array:
    """rate · factor^⌊step / every⌋, counted from the stage's first step, warm-up included, as in EfficientNet.

    The division is one of whole numbers: optax divides floats, and XLA's product with a rounded 1 / 141 falls one step
    too late.
    """
    return config.learning_rate * config.decay_factor ** (step // config.decay_every_steps)


def _is_kept(only: str, params: PyTree) -> PyTree:
    """Tell the weights that do not train: all but the classifier, which is called `head`, and perhaps the norms."""
    if "head" not in params:
        raise ConfigError(f"optimizer.only = {only!r} needs a network with a classifier called head; an mlp has none")

    def kept(path: tuple[jax.tree_util.DictKey, ...], _: Array) -> bool:
        names = [str(step.key) for step in path]
        in_norm = only == "classifier_and_norms" and any("norm" in name for name in names)
        return names[0] != "head" and not in_norm

    return jax.tree_util.tree_map_with_path(kept, params)


def _is_kernel(params: PyTree) -> PyTree:
    """Tell kernels by their names, not by their shapes: the scales of stacked layers are matrices, too."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key not in NOT_KERNELS, params)
