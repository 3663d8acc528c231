"""ReMixMatch (Berthelot et al., 2020): MixMatch with aligned guesses, several strong views, and rotations to tell.

    p̃_l, p̃_u = moving averages of the labels y_l and of the predictions f(x_u; θ)
    q     = (f(x_u; θ) p̃_l / p̃_u, normalised)^(1/T), normalised                              held fixed; x_u: weak view
    W     = all of (x_l, y_l), (x_u, q), (x_u^1, q), …, (x_u^K, q), shuffled                 x_l, x_u^k: strong views
    (x', p') = Mixup of each of them with its partner in W:  λ ~ Beta(α, α),  λ' = max(λ, 1 − λ)
    L     = CE(p', f(x'; θ)) over the mixed labelled examples
          + ρ_t λ_u CE(p', f(x'; θ)) over the mixed unlabelled ones
          + ρ_t λ_1 CE(q, f(x_u^1; θ))                                                       not mixed
          + λ_r CE(r, g(features(x_u^1 turned by r · 90°); φ)),   r ~ {0, 1, 2, 3}
    θ'    = θ − η ∇_θ L,   ρ_t = min(1, t / ramp_steps)

The authors' strong view is CTAugment: `augmentation.strong.name = "ctaugment"` (augment/ctaugment.py). ρ_t is in their
code, not in the paper. Differences from the paper: p̃ are moving averages, not means over 128 batches. All mixed
examples are in one pass. Points have no sides to turn: for them the last term is left out.

| symbol      | name                                                |
|-------------|-----------------------------------------------------|
| p̃_l, p̃_u    | Memory.labeled, Memory.unlabeled                    |
| K, T, α     | config.views, config.temperature, config.mixup      |
| λ_u, λ_1, λ_r | config.weight, config.plain_weight, config.rotation_weight |
| g(·; φ)     | Memory.head                                         |
| t           | learner.updates                                     |
| x_l, y_l    | views.labeled_strong, views.labels                  |
| x_u, x_u^k  | views.weak, views.all_strong                        |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import accuracy, aligned, cross_entropies, cross_entropy, moving, one_hot_best, smooth
from metapl.algorithms.mixmatch import guessed, nearer_to_itself, ramped
from metapl.algorithms.passes import together
from metapl.algorithms.side_head import SideHead, SideHeadState
from metapl.augment.mixup import draw
from metapl.schema import ConfigError
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Metric,
    Network,
    Objective,
    PyTree,
    Views,
)

TURNS = 4


@dataclass(frozen=True)
class ReMixMatch(MethodConfig):
    """Train on mixtures of strong views with aligned guesses, and on telling how a picture is turned."""

    name: ClassVar[str] = "remixmatch"
    title: ClassVar[str] = "ReMixMatch"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("rotation_loss", "cross-entropy of telling by which angle a picture is turned", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 1.5
    """λ_u: factor of the mixed unlabelled term after the rise."""
    plain_weight: Annotated[float, Ge(0)] = 0.5
    """λ_1: factor of the term on a strong view that is not mixed, after the rise."""
    rotation_weight: Annotated[float, Ge(0)] = 0.5
    """λ_r: factor of the rotation term; 0 leaves it out: for digits and letters, which rotation changes."""
    views: Annotated[int, Ge(1)] = 8
    """K: strong views of each unlabelled example."""
    temperature: Annotated[float, Gt(0)] = 0.5
    """T: below 1 the guessed labels are sharper than the aligned predictions."""
    mixup: Annotated[float, Gt(0)] = 0.75
    """α of Mixup's Beta(α, α)."""
    average: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Share that each step keeps of the moving averages of classes; the authors average 128 batches."""
    ramp_steps: Annotated[int, Ge(0)] = 16384
    """Steps over which λ_u and λ_1 rise linearly from 0; 0: no rise. The authors: 1,024 · 1,024 examples, 64 a step."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    @property
    def views_needed(self) -> tuple[int, int]:
        """Return one weak and K strong views."""
        return self.weak_views, self.views

    def check_examples(self, unlabeled: int, sides: tuple[int, ...]) -> None:
        """Refuse pictures that have another shape when they are turned."""
        if self.rotation_weight and len(set(sides)) > 1:
            size = " × ".join(map(str, sides))
            raise ConfigError(
                f"remixmatch rotates pictures, and these are {size}, not square: set rotation_weight to 0"
            )


class Memory(NamedTuple):
    """Moving averages of classes, [C] each, and the head that tells rotations."""

    labeled: Array
    unlabeled: Array
    head: SideHeadState | None  # None without a rotation term


def objective(config: ReMixMatch, network: Network, steps: int) -> Objective:
    """The four terms of L."""
    side = SideHead((TURNS,), network, optim.build(config.optimizer, steps))

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        classes = learners.classes(network, learner, views.weak)
        even = jnp.full((classes,), 1 / classes, views.weak.dtype)
        return Memory(even, even, side.start(learner, views.weak, key) if turns(config, views) else None)

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        guess_key, mix_key, pass_key, turn_key = jax.random.split(key, 4)
        x_l, x_u = views.labeled_as("strong"), views.all_strong[: config.views]

        # q
        fixed, old = jax.lax.stop_gradient(params), learner.memory
        weak, _ = network.apply(fixed, learner.stats, views.weak, train=True, key=guess_key)
        p = jax.nn.softmax(weak)
        y_l = jax.nn.one_hot(views.labels, p.shape[-1], dtype=p.dtype)
        labeled_shares = moving(old.labeled, jnp.mean(y_l, axis=0), config.average)
        unlabeled_shares = moving(old.unlabeled, jnp.mean(p, axis=0), config.average)
        q = guessed([aligned(p, labeled_shares, unlabeled_shares)], config.temperature)

        # (x', p')
        inputs = jnp.concatenate([x_l, views.weak, *x_u])
        targets = jnp.concatenate([smooth(y_l, y_l, config.label_smoothing), *[q] * (1 + config.views)])
        mixture = nearer_to_itself(draw(mix_key, len(inputs), config.mixup, inputs.dtype))
        labels, size = mixture.mix(targets), len(x_l)
        (mixed, plain), stats = together(network, params, learner.stats, [mixture.mix(inputs), views.strong], pass_key)
        supervised = jnp.mean(cross_entropies(labels[:size], mixed[:size]))
        unsupervised = jnp.mean(cross_entropies(labels[size:], mixed[size:]))
        anchored = cross_entropy(q, plain)

        risen = ramped(1.0, config.ramp_steps, learner.updates, q.dtype)
        unlabeled = risen * (config.weight * unsupervised + config.plain_weight * anchored)
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "consistency_loss": anchored,
            "labeled_accuracy": accuracy(labels[:size], mixed[:size]),
            PSEUDO_LABELS: one_hot_best(q),
        }
        head = old.head
        if head is not None:
            rotation, head = rotation_loss(side, head, params, learner, views.strong, turn_key)
            unlabeled += config.rotation_weight * rotation
            metrics["rotation_loss"] = rotation
        memory = Memory(labeled_shares, unlabeled_shares, head)
        return LossTerms(supervised, stats, metrics, unlabeled, strong_logits=plain, memory=memory)

    return Objective(terms, start)


def turns(config: ReMixMatch, views: Views) -> bool:
    """Return whether there is a rotation term; pictures must be square for it."""
    sides = views.weak.shape[1:-1]
    config.check_examples(len(views.weak), sides)
    return bool(config.rotation_weight and sides)


def rotation_loss(
    side: SideHead, head: SideHeadState, params: PyTree, learner: Learner, pictures: Array, key: Array
) -> tuple[Array, SideHeadState]:
    """CE(r, g(features(x turned by r · 90°); φ)), and the head after its update; statistics are not kept."""
    turn_key, pass_key = jax.random.split(key)
    r = jax.random.randint(turn_key, (len(pictures),), 0, TURNS)
    turned = jnp.stack([jnp.rot90(pictures, k, axes=(1, 2)) for k in range(TURNS)])[r, jnp.arange(len(pictures))]
    features, _ = side.network.features(params, learner.stats, turned, train=True, key=pass_key)
    return side.learn(head, lambda phi, features: cross_entropy(r, side(phi, features)), features)
