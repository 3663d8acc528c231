"""PCL (Li et al., 2021): MoCo, and each example is also told from the prototypes of other clusters.

    q, k⁺   = direction(g_θ(f_θ(t(x_u)))), direction(g_ξ(f_ξ(t'(x_u))))               k⁺ held fixed
    L       = mean over the batch of
              − log exp(q · k⁺ / τ) / [exp(q · k⁺ / τ) + Σ_{k ∈ queue} exp(q · k / τ)]
              − (1 / M) Σ_m log exp(q · c^m_s / φ^m_s) / Σ_j exp(q · c^m_j / φ^m_j)   s: the example's cluster
    θ', ξ', queue'   as in MoCo (moco.py)
    v_i     = the last k⁺ of example i, for all unlabelled examples

Every `cluster_every_steps` steps, from `warmup_steps` on, k-means groups all v into K_m clusters, for each m: c are the
clusters' mean directions, and with Z examples in a cluster

    φ = Σ ‖v − c‖ / (Z log(Z + α)), scaled so that the mean of φ^m is τ               how scattered a cluster is

Before `warmup_steps` the second term is left out. k-means is a part of the compiled step: it begins with random
examples, does `iterations` rounds, and an empty cluster keeps its place.

Differences from the paper: v are those of the views that the steps have seen, not of another pass over all pictures
without augmentation; all prototypes are in the second sum, not a sample of them.

| symbol     | name                                        |
|------------|---------------------------------------------|
| θ, ξ       | state.queries.params, state.keys.params     |
| f, g       | network.features, encoder.heads["projector"] |
| t(x_u), t'(x_u) | views.all_strong                       |
| τ, α, K_m  | config.temperature, config.smoothing, config.clusters |
| v          | state.memory                                |
| c, φ, s    | state.prototypes                            |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt, MinLen

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.contrast import direction, spread
from metapl.algorithms.projection_heads import EncoderWithHeads, HeadPerceptron, network_of
from metapl.metrics import LOSSES
from metapl.schema import ConfigError
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metric, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class PCL(MethodConfig):
    """Learn features without labels: MoCo's contrast, and a contrast of clusters."""

    name: ClassVar[str] = "pcl"
    title: ClassVar[str] = "PCL"
    uses_labels: ClassVar[bool] = False
    needs_indices: ClassVar[bool] = True
    strong_views: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "prototype_loss",
            "PCL: cross-entropy of telling an example's cluster from the others; 0 before the first clustering",
            "loss",
            "network",
            LOSSES,
            "prototypes",
        ),
    )

    clusters: Annotated[tuple[int, ...], MinLen(1)] = (25000, 50000, 100000)
    """K of each clustering."""
    cluster_every_steps: Annotated[int, Ge(1)] = 5004
    """Steps between two clusterings; the authors: one epoch (5,004 steps with batches of 256 on ImageNet)."""
    warmup_steps: Annotated[int, Ge(0)] = 100080
    """Steps before the first clustering, at least one epoch; the authors: 20 epochs."""
    iterations: Annotated[int, Ge(1)] = 20
    """Rounds of k-means."""
    smoothing: Annotated[float, Gt(1)] = 10.0
    """α: keeps small clusters from having too small a φ."""
    queue: Annotated[int, Ge(1)] = 16000
    """How many projections of earlier examples each example is compared with."""
    temperature: Annotated[float, Gt(0)] = 0.1
    """τ: similarities are divided by it."""
    key_decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """Share of the key network's weights that each step keeps."""
    hidden: Annotated[int, Ge(1)] = 2048
    """Width of the projection head's hidden layer."""
    width: Annotated[int, Ge(2)] = 128
    """Width of the projections."""
    optimizer: optim.Optimizer = optim.Optimizer()

    def check(self) -> None:
        """Refuse clusterings without clusters."""
        if min(self.clusters) < 2:
            raise ValueError(f"clusters takes numbers of at least 2, got {self.clusters}")

    def check_batches(self, labeled: int, unlabeled: int) -> None:
        """Refuse a queue that does not hold a batch."""
        if self.queue < unlabeled:
            raise ValueError(
                f"method.queue = {self.queue} holds less than a batch; take at least unlabeled_batch = {unlabeled}"
            )

    def check_examples(self, unlabeled: int, sides: tuple[int, ...]) -> None:
        """Refuse more clusters than examples."""
        if unlabeled < max(self.clusters):
            raise ConfigError(
                f"clusters = {self.clusters}: there are only {unlabeled} unlabelled examples; take fewer clusters"
            )


class Prototypes(NamedTuple):
    """One clustering of all unlabelled examples."""

    centres: Array  # [K, width]
    scatter: Array  # [K]: φ
    cluster: Array  # [N] int32: each example's


class State(NamedTuple):
    """MoCo's state, each example's last projection, and what k-means made of them."""

    queries: Learner
    keys: Weights
    queue: Array  # [queue, width], the newest first
    memory: Array  # [N, width]
    prototypes: tuple[Prototypes, ...]


def build(config: PCL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    encoder = EncoderWithHeads(network, {"projector": HeadPerceptron((config.hidden, config.width))})

    def init(key: Array, views: Views, start: Weights | None) -> State:
        assert views.indices is not None  # the loop gives them to methods that declare needs_indices
        total = views.indices.totals.unlabeled
        queries = learners.create(network, optimizer, key, views.strong, encoder.init(key, views.strong, start))
        return State(queries, queries.current, *first_memory(config, total, jax.random.fold_in(key, config.queue)))

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        assert views.indices is not None
        rows = views.indices.unlabeled
        queries, keys, queue, memory, prototypes = state
        cluster_key, order_key, key = jax.random.split(key, 3)
        since = jnp.asarray(queries.updates) - config.warmup_steps
        prototypes = jax.lax.cond(
            (since >= 0) & (since % config.cluster_every_steps == 0),
            lambda: tuple(k_means(config, memory, count, cluster_key) for count in config.clusters),
            lambda: prototypes,
        )

        x_q, x_k = views.all_strong
        order = jax.random.permutation(order_key, len(x_k))  # shuffling BN: see moco.py
        outputs, key_stats = encoder.apply(*keys, x_k[order], key)
        positives = direction(outputs["projector"])[jnp.argsort(order)]

        def loss(params: PyTree) -> tuple[Array, tuple[Array, Array, Array, Array, PyTree]]:
            outputs, stats = encoder.apply(params, queries.stats, x_q, key)
            q = direction(outputs["projector"])
            own = jnp.sum(q * positives, axis=-1, keepdims=True)
            similarities = jnp.concatenate([own, q @ queue.T], axis=-1) / config.temperature
            contrast = jnp.mean(-jax.nn.log_softmax(similarities)[:, 0])
            costs = [cluster_costs(q, one, rows) for one in prototypes]
            of_prototypes = jnp.where(since >= 0, jnp.mean(jnp.stack(costs)), 0.0)
            return contrast + of_prototypes, (contrast, of_prototypes, q, similarities, stats)

        gradient, (contrast, of_prototypes, q, similarities, stats) = jax.grad(loss, has_aux=True)(queries.params)
        new_queries = learners.update(queries, optimizer, gradient, stats)
        new_keys = optax.incremental_update(new_queries.params, keys.params, 1 - config.key_decay)
        new_queue = jnp.concatenate([positives, queue])[: config.queue]
        return State(
            new_queries, Weights(new_keys, key_stats), new_queue, memory.at[rows].set(positives), prototypes
        ), {
            "contrast_loss": contrast,
            "prototype_loss": of_prototypes,
            "contrast_accuracy": jnp.mean((jnp.argmax(similarities, axis=-1) == 0).astype(q.dtype)),
            "spread": spread(q),
            "gradient_norm": optax.tree.norm(gradient),
        }

    return Algorithm(init, step, lambda state: network_of(state.queries.weights))


def first_memory(config: PCL, total: int, key: Array) -> tuple[Array, Array, tuple[Prototypes, ...]]:
    """A queue and a memory of random directions, and prototypes that count only after the warm-up."""
    config.check_examples(total, ())
    queue, memory = (
        direction(jax.random.normal(own, (count, config.width)))
        for own, count in zip(jax.random.split(key), (config.queue, total), strict=True)
    )
    prototypes = tuple(
        Prototypes(memory[:count], jnp.full(count, config.temperature), jnp.zeros(total, jnp.int32))
        for count in config.clusters
    )
    return queue, memory, prototypes


def cluster_costs(q: Array, prototypes: Prototypes, rows: Array) -> Array:
    """−log exp(q · c_s / φ_s) / Σ_j exp(q · c_j / φ_j) of each example: [U]."""
    similarities = q @ prototypes.centres.T / prototypes.scatter
    return optax.softmax_cross_entropy_with_integer_labels(similarities, prototypes.cluster[rows])


def k_means(config: PCL, memory: Array, count: int, key: Array) -> Prototypes:
    """Group directions [N, width] into clusters by their nearest centre, beginning with random examples."""
    first = memory[jax.random.choice(key, len(memory), (count,), replace=False)]

    def round_of(_: int, centres: Array) -> Array:
        nearest = jnp.argmax(memory @ centres.T, axis=-1)
        sums = jax.ops.segment_sum(memory, nearest, count)
        return jnp.where(jnp.any(sums != 0, axis=-1, keepdims=True), direction(sums), centres)

    centres = jax.lax.fori_loop(0, config.iterations, round_of, first)
    cluster = jnp.argmax(memory @ centres.T, axis=-1).astype(jnp.int32)
    sizes = jax.ops.segment_sum(jnp.ones(len(memory)), cluster, count)
    distances = jax.ops.segment_sum(jnp.linalg.norm(memory - centres[cluster], axis=-1), cluster, count)
    # A cluster of one example, or of none, has no scatter: it gets the largest, as in the authors' code.
    scatter = distances / (jnp.maximum(sizes, 1) * jnp.log(sizes + config.smoothing))
    scatter = jnp.where(sizes > 1, scatter, jnp.max(scatter))
    return Prototypes(centres, config.temperature * scatter / jnp.maximum(jnp.mean(scatter), 1e-12), cluster)
