"""Heads on an encoder: one network for features, several classifiers on them, and the mean of what these predict.

    F      = the encoder's features of a picture: what its own classifier would be given
    x      = (F − μ) · s
    p      = the mean over the heads m of softmax(z_m(x))
    logits = log p

The encoder is any network here whose last layer is called `head`; that layer is left out. A picture is scaled first, so
that its shorter side has `size` pixels, and a grey one is repeated in three channels if the encoder takes colours. With
`mirror`, F is the mean of the features of the picture and of its mirror image.

A head is a perceptron (mlp.py) on x, or linear. Heads of one kind are a group, computed at once. `metapl fit` trains
heads on stored features and writes this network; it can also be trained as a whole.

| symbol | name                              |
|--------|-----------------------------------|
| F      | HeadsModule.features              |
| μ, s   | scale/mean, scale/factor          |
| z_m    | HeadGroup: groupI_J, layer J of group I |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, MinLen
from flax import linen as nn

from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.mlp import ACTIVATIONS
from metapl.schema import ConfigError
from metapl.types import Array, ModelConfig

SMALLEST = 1e-30  # keeps the logarithm of a probability finite
LAST = "head"  # the name of an encoder's own classifier


@dataclass(frozen=True)
class HeadGroup:
    """Heads of one kind."""

    count: Annotated[int, Ge(1)] = 1
    """How many heads there are."""
    hidden: tuple[int, ...] = ()
    """Units of each hidden layer of a head; none: linear heads."""
    activation: Literal["sigmoid", "relu"] = "relu"
    """Activation function of the hidden layers."""


@dataclass(frozen=True)
class Heads(ModelConfig):
    """Several classifiers on the features of one encoder; their probabilities are averaged."""

    name: ClassVar[str] = "heads"

    encoder: ModelConfig = EfficientNetLite()
    """The network whose features the heads are given."""
    size: Annotated[int, Ge(0)] = 0
    """Shorter side in pixels that pictures are scaled to before they are encoded; 0: as they come."""
    colour: bool = True
    """Whether the encoder takes three channels; a grey picture is then repeated in all of them."""
    mirror: bool = False
    """Average the features of each picture and of its mirror image: twice the work."""
    groups: Annotated[tuple[HeadGroup, ...], MinLen(1)] = (HeadGroup(),)
    """The heads, by kind."""
    frozen_norms: bool = False
    """Train the encoder in evaluation mode: batch norm uses its running statistics and keeps them, μ and s stay, and
    nothing is dropped. So training starts with what the network predicts, however small the batches are."""


class Scale(nn.Module):
    """(F − μ) · s."""

    frozen: bool = False

    @nn.compact
    def __call__(self, features: Array) -> Array:
        shape = features.shape[-1:]
        mean = self.param("mean", nn.initializers.zeros, shape, jnp.float32)
        factor = self.param("factor", nn.initializers.ones, shape, jnp.float32)
        if self.frozen:
            mean, factor = jax.lax.stop_gradient((mean, factor))
        return (features - mean) * factor


class Later(nn.Module):
    """A dense layer of each head on the layer before: [N, heads, units] → [N, heads, outputs]."""

    outputs: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        heads, units = x.shape[1:]
        kernel = self.param("kernel", nn.initializers.lecun_normal(batch_axis=0), (heads, units, self.outputs))
        return jnp.einsum("nmh,mhc->nmc", x, kernel) + self.param("bias", nn.initializers.zeros, (heads, self.outputs))


class HeadsModule(nn.Module):
    """[N, H, W, C] → logits [N, classes]."""

    config: Heads
    classes: int
    encoder: nn.Module

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        scaled = Scale(self.config.frozen_norms, name="scale")(self.features(x, train=train))
        logits = [self._group(f"group{i}", group, scaled) for i, group in enumerate(self.config.groups)]
        p = jnp.mean(jax.nn.softmax(jnp.concatenate(logits, axis=1)), axis=1)
        return jnp.log(jnp.maximum(p, SMALLEST))

    def features(self, x: Array, *, train: bool) -> Array:
        """F: [N, D]."""
        seen, train = as_encoder_takes(x, self.config.size, self.config.colour), train and not self.config.frozen_norms
        features = without_head(lambda: self.encoder(seen, train=train))
        if self.config.mirror:
            features = (features + without_head(lambda: self.encoder(jnp.flip(seen, 2), train=train))) / 2
        return features.astype(jnp.float32)

    def _group(self, name: str, group: HeadGroup, x: Array) -> Array:
        """z of each head of a group: [N, heads, classes]."""
        first, *later = (*group.hidden, self.classes)
        z = nn.Dense(group.count * first, name=f"{name}_0")(x).reshape(x.shape[0], group.count, first)
        for number, outputs in enumerate(later, start=1):
            z = Later(outputs, name=f"{name}_{number}")(ACTIVATIONS[group.activation](z))
        return z


def as_encoder_takes(pictures: Array, size: int, colour: bool) -> Array:
    """Scale pictures [N, H, W, C] bilinearly to a shorter side of `size` pixels, in three channels if `colour`."""
    height, width, channels = pictures.shape[1:]
    if colour and channels not in (1, 3):
        raise ConfigError(f"the encoder takes grey or colour pictures, not pictures with {channels} channels")
    shorter = min(height, width)
    if size and size != shorter:
        sides = round(height * size / shorter), round(width * size / shorter)
        pictures = jax.image.resize(pictures, (pictures.shape[0], *sides, channels), "linear")
    return jnp.broadcast_to(pictures, (*pictures.shape[:3], 3)) if colour else pictures


def without_head(apply: Callable[[], Any]) -> Array:
    """Return what a network's own classifier is given; the classifier is neither computed nor made."""

    def leave_out(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        if isinstance(context.module, nn.Dense) and context.module.name == LAST:
            return args[0]
        return call(*args, **kwargs)

    with nn.intercept_methods(leave_out):
        return jnp.asarray(apply())


def build(config: Heads, classes: int, encoder: nn.Module) -> nn.Module:
    """Make the linen module from its settings; `encoder` is that of `config.encoder`."""
    return HeadsModule(config, classes, encoder)
