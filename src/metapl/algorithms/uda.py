"""UDA: the same answer for an example and for a distorted copy of it.

    q  = StopGradient(f(x_u; θ)^(1/τ)), normalised
    θ' = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t CE(q, f(RandAugment(x_u); θ)) ]

Three options, all off by default. The first term leaves out labelled examples whose f_y(x_l) exceeds a cap that rises
from 1/C to 1 over the stage (Appendix C.4 masks confident ones; UDA's own schedules say how). The second leaves out
examples with max q < threshold, and λ_t = λ min(1, t / ramp_steps), both as in the released code. Means are over whole
batches: who is left out counts as 0.

| symbol          | name               |
|-----------------|--------------------|
| f(·;θ)          | network.apply      |
| λ, τ, threshold, ramp_steps, cap | config.consistency |
| t               | learner.updates    |
| x_u             | views.weak         |
| RandAugment(x_u)| views.strong: whatever the views make of it; Gaussian jitter for points |
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.forward import forward_views
from metapl.algorithms.losses import Consistency, accuracy, capped_cross_entropy, consistency, one_hot_best, ramped
from metapl.types import (
    PSEUDO_LABELS,
    Algorithm,
    Array,
    Labeler,
    Learner,
    MethodConfig,
    Metrics,
    Network,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class UDA(MethodConfig):
    """Train on labels and on consistency between views."""

    name: ClassVar[str] = "uda"

    consistency: Consistency = Consistency()
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes; the consistency term has its own targets."""


def build(config: UDA, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return learners.create(network, optimizer, key, views.labeled, start)

    def step(learner: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        term, t = config.consistency, learner.updates

        def loss_fn(params: PyTree) -> tuple[Array, Any]:
            logits, stats = forward_views(term, network, params, learner.stats, views, key)
            supervised, own_mask = capped_cross_entropy(
                term, views.labels, logits.labeled, config.label_smoothing, t / steps
            )
            unsupervised, mask = consistency(term, logits.weak, logits.learning(term))
            metrics = {
                "loss": supervised,
                "consistency_loss": unsupervised,
                "labeled_accuracy": accuracy(views.labels, logits.labeled),
                "labeled_mask_rate": jnp.mean(own_mask),
                "mask_rate": jnp.mean(mask),
                PSEUDO_LABELS: one_hot_best(logits.weak),
            }
            return supervised + ramped(term, unsupervised, t), (metrics, stats)

        (_, (metrics, stats)), gradient = jax.value_and_grad(loss_fn, has_aux=True)(learner.params)
        learner = learners.update(learner, optimizer, gradient, stats)
        return learner, metrics | {"gradient_norm": optax.tree.norm(gradient)}

    return Algorithm(init, step, lambda learner: learner.weights, Labeler(lambda learner: learner.current))
