"""FixMatch (Sohn et al., 2020), the strongest label propagation of the paper's Table 2.

    q    = f(x_u; θ),   ŷ_u = argmax q                                    held fixed
    θ'   = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ [max q ≥ threshold] CE(ŷ_u, f(RandAugment(x_u); θ)) ]

Both terms are means over their whole batch: an example below the threshold counts as 0. The ratio μ of unlabelled to
labelled examples is that of the stage's batch sizes; Sohn et al. have μ = 7, λ = 1, threshold 0.95.

| symbol           | name             |
|------------------|------------------|
| f(·;θ)           | network.apply    |
| λ                | config.weight    |
| x_l, y_l         | views.labeled, views.labels |
| x_u              | views.weak       |
| RandAugment(x_u) | views.strong     |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms.losses import accuracy, confident, cross_entropies, cross_entropy, one_hot_best, sharpen
from metapl.algorithms.passes import together
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
)


@dataclass(frozen=True)
class FixMatch(MethodConfig):
    """Train on labels, and on the network's own confident labels for distorted examples."""

    name: ClassVar[str] = "fixmatch"
    title: ClassVar[str] = "FixMatch"

    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the unlabelled term."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.95
    """Leave out examples whose best class has a lower probability than this."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


def objective(config: FixMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ [max q ≥ threshold] CE(ŷ_u, f(RandAugment(x_u); θ))."""
    del steps

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        shown = [views.labeled, views.weak, views.strong]
        (labeled, weak, strong), stats = together(network, params, learner.stats, shown, key)  # [B, C], [U, C], [U, C]

        # CE(y_l, f(x_l; θ))
        supervised = cross_entropy(views.labels, labeled, config.label_smoothing)

        # [max q ≥ threshold] CE(ŷ_u, f(RandAugment(x_u); θ))
        q = sharpen(weak)
        mask = confident(q, config.threshold)
        costs = cross_entropies(jnp.argmax(q, axis=-1), strong)
        unsupervised = jnp.mean(mask * costs if config.threshold else costs)

        metrics = {
            "loss": supervised,
            "consistency_loss": unsupervised,
            "labeled_accuracy": accuracy(views.labels, labeled),
            "mask_rate": jnp.mean(mask),
            PSEUDO_LABELS: one_hot_best(weak),
        }
        return LossTerms(supervised, stats, metrics, config.weight * unsupervised, weak, strong)

    return Objective(terms)
