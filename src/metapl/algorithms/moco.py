"""MoCo v2 (He et al., 2020; Chen et al., 2020): tell an example's other view from a queue of earlier examples.

    q       = direction(g_θ(f_θ(t(x_u))))
    k⁺      = direction(g_ξ(f_ξ(t'(x_u))))                                        held fixed
    L       = −mean log exp(q · k⁺ / τ) / [exp(q · k⁺ / τ) + Σ_{k ∈ queue} exp(q · k / τ)]
    θ'      = θ − η ∇_θ L
    ξ'      = m ξ + (1 − m) θ'
    queue'  = k⁺ of this batch, then the queue without its oldest ones

f is the network without its classifier, g a perceptron ("v2"); g's weights belong to this stage. The queue starts with
random directions, as the authors' does.

The keys go through the network in a random order ("shuffling BN"): where batch norm sees a part of the batch at a time
(microbatches), a query and its key are normalised with different examples, and their statistics do not give the key
away. Where it sees the whole batch, on however many devices, the order changes nothing. The key network's own batch
norm always uses the batch's statistics, as the authors' does.

| symbol     | name                                  |
|------------|---------------------------------------|
| θ, ξ       | state.queries.params, state.keys.params |
| f          | network.features                      |
| g          | encoder.heads["projector"]            |
| t(x_u), t'(x_u) | views.all_strong                 |
| τ, m       | config.temperature, config.key_decay  |
| queue      | state.queue                           |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.contrast import direction, spread
from metapl.algorithms.projection_heads import EncoderWithHeads, HeadPerceptron, network_of
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class MoCo(MethodConfig):
    """Learn features without labels: tell each example's other view from a queue of earlier examples."""

    name: ClassVar[str] = "moco"
    title: ClassVar[str] = "MoCo v2"
    uses_labels: ClassVar[bool] = False
    strong_views: ClassVar[int] = 2

    queue: Annotated[int, Ge(1)] = 65536
    """How many projections of earlier examples each example is compared with."""
    temperature: Annotated[float, Gt(0)] = 0.2
    """τ: similarities are divided by it."""
    key_decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """m: share of the key network's weights that each step keeps."""
    hidden: Annotated[int, Ge(1)] = 2048
    """Width of the projection head's hidden layer."""
    width: Annotated[int, Ge(2)] = 128
    """Width of the projections."""
    optimizer: optim.Optimizer = optim.Optimizer()

    def check_batches(self, labeled: int, unlabeled: int) -> None:
        """Refuse a queue that does not hold a batch."""
        if self.queue < unlabeled:
            raise ValueError(
                f"method.queue = {self.queue} holds less than a batch; take at least unlabeled_batch = {unlabeled}"
            )


class State(NamedTuple):
    """The network that learns, its moving average, and the average's last projections."""

    queries: Learner
    keys: Weights
    queue: Array  # [queue, width], the newest first


def build(config: MoCo, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    encoder = EncoderWithHeads(network, {"projector": HeadPerceptron((config.hidden, config.width))})

    def init(key: Array, views: Views, start: Weights | None) -> State:
        queries = learners.create(network, optimizer, key, views.strong, encoder.init(key, views.strong, start))
        queue = direction(jax.random.normal(jax.random.fold_in(key, config.queue), (config.queue, config.width)))
        return State(queries, queries.current, queue)

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        queries, keys, queue = state
        x_q, x_k = views.all_strong
        order_key, key = jax.random.split(key)

        # k⁺
        order = jax.random.permutation(order_key, len(x_k))
        outputs, key_stats = encoder.apply(*keys, x_k[order], key)
        positives = direction(outputs["projector"])[jnp.argsort(order)]

        def loss(params: PyTree) -> tuple[Array, tuple[Array, Array, PyTree]]:
            outputs, stats = encoder.apply(params, queries.stats, x_q, key)
            q = direction(outputs["projector"])
            own = jnp.sum(q * positives, axis=-1, keepdims=True)
            similarities = jnp.concatenate([own, q @ queue.T], axis=-1) / config.temperature
            return jnp.mean(-jax.nn.log_softmax(similarities)[:, 0]), (q, similarities, stats)

        (contrast, (q, similarities, stats)), gradient = jax.value_and_grad(loss, has_aux=True)(queries.params)
        new_queries = learners.update(queries, optimizer, gradient, stats)
        new_keys = optax.incremental_update(new_queries.params, keys.params, 1 - config.key_decay)
        new_queue = jnp.concatenate([positives, queue])[: config.queue]
        return State(new_queries, Weights(new_keys, key_stats), new_queue), {
            "contrast_loss": contrast,
            "contrast_accuracy": jnp.mean((jnp.argmax(similarities, axis=-1) == 0).astype(q.dtype)),
            "spread": spread(q),
            "gradient_norm": optax.tree.norm(gradient),
        }

    return Algorithm(init, step, lambda state: network_of(state.queries.weights))
