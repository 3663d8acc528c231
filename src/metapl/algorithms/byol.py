"""BYOL (Grill et al., 2020): predict how a moving average of the network sees another view of the same example.

    z'       = direction(g_ξ(f_ξ(t'(x_u))))                       the target's projection, held fixed
    p        = direction(q_θ(g_θ(f_θ(t(x_u)))))                   the online network's prediction of it
    L(t, t') = mean ‖p − z'‖² = 2 − 2 mean p · z'
    θ_k      = θ_{k−1} − η ∇_θ [L(t, t') + L(t', t)]
    ξ_k      = τ_k ξ_{k−1} + (1 − τ_k) θ_k                        τ_k = 1 − (1 − τ) (cos(π k / K) + 1) / 2

There are no negatives; that q exists, and that ξ follows slowly, keeps the projections from collapsing to a point
(`spread` says whether they have). f is the network without its classifier; g and q are perceptrons with batch norm.
Their weights belong to this stage; the network that comes out is f_θ.

| symbol     | name                                       |
|------------|--------------------------------------------|
| θ, ξ       | state.online.params, state.target.params   |
| f          | network.features                           |
| g, q       | encoder.heads["projector"], ["predictor"]  |
| t(x_u), t'(x_u) | views.all_strong                      |
| τ          | config.target_decay                        |
| k, K       | online.updates, the stage's steps          |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Le

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.contrast import direction, spread
from metapl.algorithms.projection_heads import EncoderWithHeads, HeadPerceptron, network_of, without
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class BYOL(MethodConfig):
    """Learn features without labels: predict what a moving average of the network makes of another view."""

    name: ClassVar[str] = "byol"
    title: ClassVar[str] = "BYOL"
    uses_labels: ClassVar[bool] = False
    strong_views: ClassVar[int] = 2

    target_decay: Annotated[float, Ge(0), Le(1)] = 0.996
    """τ: share of the target's weights that the first step keeps; it rises to 1 at the last step."""
    hidden: Annotated[int, Ge(1)] = 4096
    """Width of the hidden layers of projector and predictor."""
    width: Annotated[int, Ge(2)] = 256
    """Width of projections and predictions."""
    optimizer: optim.Optimizer = optim.Optimizer()


class State(NamedTuple):
    """The online network with its heads, and the target, which has no predictor."""

    online: Learner
    target: Weights


def build(config: BYOL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    head = HeadPerceptron((config.hidden, config.width), norm="hidden")
    encoder = EncoderWithHeads(network, {"projector": head, "predictor": head})

    def init(key: Array, views: Views, start: Weights | None) -> State:
        online = learners.create(network, optimizer, key, views.strong, encoder.init(key, views.strong, start))
        return State(online, without(online.current, "predictor"))

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        online, target = state
        x_u = jnp.concatenate(views.all_strong)
        target_key, key = jax.random.split(key)

        # z' of each view is the target of the other one
        outputs, target_stats = encoder.apply(*target, x_u, target_key)
        z = direction(outputs["projector"])
        targets = jnp.roll(z, len(views.strong), axis=0)

        # L(t, t') + L(t', t)
        def loss(params: PyTree) -> tuple[Array, PyTree]:
            outputs, stats = encoder.apply(params, online.stats, x_u, key)
            distances = jnp.sum((direction(outputs["predictor"]) - targets) ** 2, axis=-1)
            return 2 * jnp.mean(distances), stats

        (distance, stats), gradient = jax.value_and_grad(loss, has_aux=True)(online.params)
        new_online = learners.update(online, optimizer, gradient, stats)

        # ξ = τ_k ξ + (1 − τ_k) θ
        share = (1 - config.target_decay) * (jnp.cos(jnp.pi * online.updates / steps) + 1) / 2
        params = optax.incremental_update(without(new_online.current, "predictor").params, target.params, share)
        return State(new_online, Weights(params, target_stats)), {
            "consistency_loss": distance,
            "spread": spread(z),
            "gradient_norm": optax.tree.norm(gradient),
        }

    return Algorithm(init, step, lambda state: network_of(state.online.weights))
