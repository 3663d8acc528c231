"""AdaMatch (Berthelot et al., 2022), as its semi-supervised row: FixMatch with a relative threshold and aligned labels.

    Z'   = logits of x_l in a pass with all other views,   Z'' = logits of x_l in a pass of their own
    Z    = r Z' + (1 − r) Z'',   r ~ Uniform(0, 1) for each logit
    p̃_l  = m p̃_l + (1 − m) mean_l softmax(Z_weak),   p̃_u = m p̃_u + (1 − m) mean_u f(x_u; θ)
    q    = f(x_u; θ) p̃_l / p̃_u, normalised                                                 held fixed
    c    = τ mean_l max softmax(Z_weak)                                                    held fixed
    L    = CE(y_l, Z_weak) + CE(y_l, Z_strong) + λ_t mean_u [max q ≥ c] CE(q, f(RandAugment(x_u); θ))
    λ_t  = λ (1 − cos(min(π, 2 π t / T))) / 2,   θ' = θ − η ∇_θ L

x_l has a weak and a strong view. The threshold is relative to how sure the network is of labelled examples. λ_t rises
over the first half of the stage's T steps. p̃ is a moving average, as in the authors' code; both start at 1 / C.

| symbol    | name                                          |
|-----------|-----------------------------------------------|
| p̃_l, p̃_u  | Memory.labeled, Memory.unlabeled              |
| τ, λ, m   | config.threshold, config.weight, config.average |
| t, T      | learner.updates, steps                        |
| x_l, y_l  | views.labeled and views.labeled_strong, views.labels |
| x_u, RandAugment(x_u) | views.weak, views.strong          |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import (
    accuracy,
    aligned,
    cross_entropies,
    cross_entropy,
    moving,
    sharpen,
)
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
class AdaMatch(MethodConfig):
    """Train on labels of weak and strong views, and on aligned soft labels above a relative threshold."""

    name: ClassVar[str] = "adamatch"
    title: ClassVar[str] = "AdaMatch"

    weight: Annotated[float, Ge(0)] = 1.0
    """λ: factor of the unlabelled term after its rise."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.9
    """τ: the threshold, as a share of the mean confidence on labelled examples."""
    average: Annotated[float, Ge(0), Lt(1)] = 0.999
    """m: share that each step keeps of the moving averages of classes."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""


class Memory(NamedTuple):
    """Moving averages of the predictions, [C] each."""

    labeled: Array
    unlabeled: Array


def objective(config: AdaMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, Z_weak) + CE(y_l, Z_strong) + λ_t mean_u [max q ≥ c] CE(q, f(RandAugment(x_u); θ))."""

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        del key
        classes = learners.classes(network, learner, views.weak)
        even = jnp.full((classes,), 1 / classes, views.weak.dtype)
        return Memory(even, even)

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        all_key, labeled_key, mix_key = jax.random.split(key, 3)
        x_l = jnp.concatenate([views.labeled, views.labeled_as("strong")])
        (joint, weak, strong), stats = together(
            network, params, learner.stats, [x_l, views.weak, views.strong], all_key
        )
        alone, _ = network.apply(params, learner.stats, x_l, train=True, key=labeled_key)

        # Z = r Z' + (1 − r) Z''
        r = jax.random.uniform(mix_key, joint.shape, joint.dtype)
        z_weak, z_strong = jnp.split(r * joint + (1 - r) * alone, 2)
        supervised = cross_entropy(views.labels, z_weak, config.label_smoothing)
        supervised += cross_entropy(views.labels, z_strong, config.label_smoothing)

        # q, c
        p_l, p_u = sharpen(z_weak), sharpen(weak)
        pairs = zip(learner.memory, (p_l, p_u), strict=True)
        memory = Memory(*(moving(old, jnp.mean(p, axis=0), config.average) for old, p in pairs))
        q = aligned(p_u, memory.labeled, memory.unlabeled)
        least = config.threshold * jnp.mean(jnp.max(p_l, axis=-1))
        mask = (jnp.max(q, axis=-1) >= least).astype(q.dtype)
        unsupervised = jnp.mean(mask * cross_entropies(q, strong))

        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "labeled_accuracy": accuracy(views.labels, z_weak),
            "mask_rate": jnp.mean(mask),
            PSEUDO_LABELS: q,
        }
        t = jnp.asarray(learner.updates, q.dtype)
        factor = config.weight * (1 - jnp.cos(jnp.minimum(jnp.pi, 2 * jnp.pi * t / steps))) / 2
        return LossTerms(supervised, stats, metrics, factor * unsupervised, weak, strong, memory)

    return Objective(terms, start)
