"""A head beside the classifier, which a method trains and keeps in its memory: the network that comes out has none.

    φ' = φ − η ∇_φ L(g(features; φ))

The gradient for φ needs the features alone, no further pass through the network. The loss flows on into the features,
so the network learns from it, too. φ has an optimizer of its own, with the method's settings.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from metapl.algorithms.projection_heads import HeadPerceptron
from metapl.optim import Descent
from metapl.types import Array, Learner, Network, PyTree


class SideHeadState(NamedTuple):
    """The state of a head."""

    params: PyTree
    opt_state: PyTree


class SideHead(NamedTuple):
    """A perceptron g(·; φ) on the network's features."""

    widths: tuple[int, ...]
    network: Network
    optimizer: Descent
    inputs: int = 1  # how many examples' features it takes, side by side

    def start(self, learner: Learner, inputs: Array, key: Array) -> SideHeadState:
        """Draw φ."""
        features, _ = jax.eval_shape(lambda: self.network.features(*learner.current, inputs, train=False))
        zeros = jnp.zeros((1, self.inputs * features.shape[-1]), jnp.float32)
        params = HeadPerceptron(self.widths).init(jax.random.fold_in(key, 1), zeros, train=False)["params"]
        params = jax.tree.map(lambda leaf: leaf.astype(features.dtype), params)
        return SideHeadState(params, self.optimizer.init(params))

    def __call__(self, params: PyTree, features: Array) -> Array:
        """g(features; φ)."""
        outputs: Any = HeadPerceptron(self.widths).apply({"params": params}, features, train=True)
        return outputs

    def learn(
        self, head: SideHeadState, loss: Callable[[PyTree, PyTree], Array], features: PyTree
    ) -> tuple[Array, SideHeadState]:
        """Return L(φ, features), with a gradient for the features alone, and the head after its update."""
        gradient = jax.grad(loss)(head.params, jax.lax.stop_gradient(features))
        updates, opt_state = self.optimizer.update(gradient, head.opt_state, head.params)
        after = SideHeadState(optax.apply_updates(head.params, updates), opt_state)
        return loss(jax.lax.stop_gradient(head.params), features), jax.lax.stop_gradient(after)
