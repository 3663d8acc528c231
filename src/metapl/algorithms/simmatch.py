"""SimMatch (Zheng et al., 2022): the labelled examples near an unlabelled one take part in its label.

    z(x)  = g(features(x; θ); φ), of length 1
    b_j   = z(x_j; θ', φ') for every labelled example j, as it was last seen                  the bank
    p     = f(x_u; θ'), aligned to equally frequent classes                                  held fixed; x_u: weak view
    s_j   ∝ exp(z(x_u; θ', φ') · b_j / T)                                                     over the bank
    p̂     = α p + (1 − α) Σ_j s_j onehot(y_j),   ŝ_j ∝ s_j p_{y_j}
    L     = CE(y_l, f(x_l; θ)) + λ_u mean_u [max p̂ ≥ τ] CE(p̂, f(RandAugment(x_u); θ))
          + λ_in mean_u CE(ŝ, softmax_j(z(RandAugment(x_u); θ, φ) · b_j / T))
    (θ, φ) ← (θ, φ) − η ∇ L,   (θ', φ') ← a_t (θ', φ') + (1 − a_t) (θ, φ),  a_t = min(1 − 1 / (t + 1), a)

The bank is brought up to date with the labelled batch before it is used; examples that no batch has shown yet are left
out. The classes' shares, to which p is aligned, are a moving average. θ' labels, and is evaluated.

| symbol   | name                                                        |
|----------|-------------------------------------------------------------|
| θ', φ'   | Memory.teacher, Memory.teacher_head                         |
| φ        | Memory.head                                                 |
| b, y     | Memory.bank [L, D], Memory.bank_labels [L], −1: not yet seen |
| α, T, τ  | config.mixture, config.temperature, config.threshold        |
| λ_u, λ_in, a | config.weight, config.instance_weight, config.decay     |
| x_l, y_l | views.labeled, views.labels                                 |
| x_u, RandAugment(x_u) | views.weak, views.strong                       |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.averages import follow_tree
from metapl.algorithms.contrast import direction
from metapl.algorithms.losses import accuracy, aligned, confident, cross_entropies, cross_entropy, moving
from metapl.algorithms.side_head import SideHead, SideHeadState
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Labeler,
    Learner,
    LossTerms,
    MethodConfig,
    Metric,
    Network,
    Objective,
    PyTree,
    Views,
    Weights,
)

UNSEEN = -1


@dataclass(frozen=True)
class SimMatch(MethodConfig):
    """Train on labels, and on labels that class and neighbours agree on, for examples and for similarities."""

    name: ClassVar[str] = "simmatch"
    title: ClassVar[str] = "SimMatch"
    needs_indices: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("instance_loss", "SimMatch: cross-entropy of the similarities to labelled examples", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 1.0
    """λ_u: factor of the unlabelled term."""
    instance_weight: Annotated[float, Ge(0)] = 1.0
    """λ_in: factor of the term on similarities."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.95
    """τ: leave out examples whose best class has a lower probability than this."""
    mixture: Annotated[float, Ge(0), Le(1)] = 0.9
    """α: share of the classifier in a label; the rest is the neighbours'."""
    temperature: Annotated[float, Gt(0)] = 0.1
    """T: similarities are divided by it."""
    width: Annotated[int, Ge(2)] = 128
    """Width of both layers of the projection head."""
    average: Annotated[float, Ge(0), Lt(1)] = 0.999
    """Share that each step keeps of the moving average of classes."""
    decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """a: share of the average's weights that each step keeps, after the first 1 / (1 − a) steps."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    def check(self) -> None:
        """Refuse a second average."""
        if self.optimizer.average_decay:
            raise ValueError("optimizer.average_decay must be 0: the teacher is the average; set decay instead")


class Memory(NamedTuple):
    """The averages of network and head, the head itself, the bank, and the classes' shares."""

    teacher: Weights
    teacher_head: PyTree
    head: SideHeadState
    bank: Array  # [L, D]
    bank_labels: Array  # [L] int32
    shares: Array  # [C]


def objective(config: SimMatch, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_u L_u + λ_in L_in."""
    side = SideHead((config.width, config.width), network, optim.build(config.optimizer, steps))

    def start(learner: Learner, views: Views, key: Array) -> Memory:
        assert views.indices is not None  # declared
        head, dtype = side.start(learner, views.weak, key), views.weak.dtype
        labeled, classes = views.indices.totals.labeled, learners.classes(network, learner, views.weak)
        bank = jnp.zeros((labeled, config.width), dtype), jnp.full((labeled,), UNSEEN, jnp.int32)
        return Memory(learner.current, head.params, head, *bank, jnp.full((classes,), 1 / classes, dtype))

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        student_key, teacher_key = jax.random.split(key)
        old, size = learner.memory, len(views.labeled)

        # p, s, p̂, ŝ: by the averages
        shown = jnp.concatenate([views.labeled, views.weak])
        seen = (*old.teacher, shown)
        teacher_logits = network.apply(*seen, train=True, key=teacher_key)[0][size:]
        z = direction(side(old.teacher_head, network.features(*seen, train=True, key=teacher_key)[0]))
        bank, labels = with_batch(old, z[:size], views)
        p = jax.nn.softmax(teacher_logits)
        shares = moving(old.shares, jnp.mean(p, axis=0), config.average)
        p = aligned(p, jnp.full_like(shares, 1 / len(shares)), shares)
        near = similarities(config, z[size:], bank, labels)
        p_hat, s_hat = agreed(config, p, jax.nn.softmax(near), labels)

        # CE(y_l, f(x_l; θ)), [max p̂ ≥ τ] CE(p̂, f(RandAugment(x_u); θ))
        inputs = jnp.concatenate([views.labeled, views.strong])
        logits, stats = network.apply(params, learner.stats, inputs, train=True, key=student_key)
        supervised = cross_entropy(views.labels, logits[:size], config.label_smoothing)
        mask = confident(p_hat, config.threshold)
        unsupervised = jnp.mean(mask * cross_entropies(p_hat, logits[size:]))

        # CE(ŝ, softmax(z(RandAugment(x_u)) · b / T)): the same pass once more, which the compiler computes once
        features, _ = network.features(params, learner.stats, inputs, train=True, key=student_key)

        def instance_loss(phi: PyTree, features: Array) -> Array:
            found = jax.nn.log_softmax(similarities(config, direction(side(phi, features)), bank, labels))
            return -jnp.mean(jnp.sum(jnp.where(s_hat > 0, s_hat * found, 0), axis=-1))

        instance, head = side.learn(old.head, instance_loss, features[size:])
        metrics = {
            "loss": supervised,
            "unlabeled_loss": unsupervised,
            "instance_loss": instance,
            "labeled_accuracy": accuracy(views.labels, logits[:size]),
            "mask_rate": jnp.mean(mask),
            PSEUDO_LABELS: p_hat,
        }
        unlabeled = config.weight * unsupervised + config.instance_weight * instance
        memory = old._replace(head=head, bank=bank, bank_labels=labels, shares=shares)
        return LossTerms(supervised, stats, metrics, unlabeled, strong_logits=logits[size:], memory=memory)

    def follow(memory: Memory, learner: Learner) -> Memory:
        now, average = (learner.current, memory.head.params), (memory.teacher, memory.teacher_head)
        teacher, teacher_head = follow_tree(average, now, learner.updates, config.decay)
        return memory._replace(teacher=teacher, teacher_head=teacher_head)

    labeler = Labeler(lambda learner: learner.memory.teacher, teaches=True)
    return Objective(terms, start, follow, lambda learner: learner.memory.teacher, labeler)


def with_batch(memory: Memory, z: Array, views: Views) -> tuple[Array, Array]:
    """Return the bank and its labels, brought up to date with the labelled batch."""
    assert views.indices is not None  # declared
    rows = views.indices.labeled
    return jax.lax.stop_gradient(
        (memory.bank.at[rows].set(z), memory.bank_labels.at[rows].set(views.labels.astype(jnp.int32)))
    )


def similarities(config: SimMatch, z: Array, bank: Array, labels: Array) -> Array:
    """z · b_j / T for every labelled example j, −∞ for those that are not in the bank yet: [U, L]."""
    return jnp.where(labels == UNSEEN, -jnp.inf, z @ bank.T / config.temperature)


def agreed(config: SimMatch, p: Array, s: Array, labels: Array) -> tuple[Array, Array]:
    """p̂ = α p + (1 − α) Σ_j s_j onehot(y_j), and ŝ_j ∝ s_j p_{y_j}."""
    one_hot = jax.nn.one_hot(labels, p.shape[-1], dtype=p.dtype)  # zeros for unseen ones
    p_hat = config.mixture * p + (1 - config.mixture) * s @ one_hot
    s_hat = s * (p @ one_hot.T)
    s_hat /= jnp.maximum(jnp.sum(s_hat, axis=-1, keepdims=True), 1e-12)
    return jax.lax.stop_gradient((p_hat, s_hat))
