"""PIRL (Misra and van der Maaten, 2020): a picture and its jigsaw puzzle have the same representation.

    a       = direction(g(features of the nine patches of t(x_u), in random order))       the puzzle
    b       = direction(f(features of x_u))                                               the whole picture
    h_j(z)  = exp(z · m_j / τ) / [exp(z · m_i / τ) + Σ_{n ∈ D} exp(z · m_n / τ)]           i: the example itself
    N(z)    = −log h_i(z) − Σ_{n ∈ D} log(1 − h_n(z))
    θ'      = θ − η ∇_θ mean [λ N(a) + (1 − λ) N(b)]
    m_i'    = direction(½ m_i + ½ b_i)                                                     held fixed in N

D are `negatives` examples, drawn anew at each step for the whole batch. m is a memory of all unlabelled examples. f is
a dense layer; g is one for each patch, and one for the nine results together. Both belong to this stage.

A patch is a ninth of the picture. Networks with convolutions take it as it is. Others, such as mlp, take pictures of
one size only: `enlarge` scales each patch to the whole picture's size, which makes nine passes of what is one.

| symbol     | name                                   |
|------------|----------------------------------------|
| x_u, t(x_u) | views.weak, views.strong              |
| θ          | learner.params: the network, f and g   |
| m          | state.memory                           |
| λ, τ       | config.jigsaw_weight, config.temperature |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Le
from flax import linen as nn

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.contrast import direction, spread
from metapl.algorithms.projection_heads import NETWORK, EncoderWithHeads, HeadPerceptron, network_of
from metapl.schema import ConfigError
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights

SIDE = 3  # patches along each side


@dataclass(frozen=True)
class PIRL(MethodConfig):
    """Learn features without labels: a picture and its shuffled patches belong together."""

    name: ClassVar[str] = "pirl"
    title: ClassVar[str] = "PIRL"
    uses_labels: ClassVar[bool] = False
    needs_indices: ClassVar[bool] = True

    negatives: Annotated[int, Ge(1)] = 32000
    """How many examples of the memory each example is compared with, at each step."""
    temperature: Annotated[float, Gt(0)] = 0.07
    """τ: similarities are divided by it."""
    jigsaw_weight: Annotated[float, Ge(0), Le(1)] = 0.5
    """λ: share of the puzzle's term; the rest is that of the whole picture."""
    width: Annotated[int, Ge(2)] = 128
    """Width of the representations."""
    enlarge: bool = False
    """Scale each patch to the size of a whole picture, for networks without convolutions."""
    optimizer: optim.Optimizer = optim.Optimizer()

    @property
    def needs_pictures(self) -> bool:
        """A puzzle is made of a picture."""
        return True

    @property
    def changes_size(self) -> bool:
        """Patches are smaller than pictures, unless they are enlarged."""
        return not self.enlarge

    def check_examples(self, unlabeled: int, sides: tuple[int, ...]) -> None:
        """Refuse pictures with patches of no pixel."""
        if min(sides, default=SIDE) < SIDE:
            size = " × ".join(map(str, sides))
            raise ConfigError(
                f"pirl cuts a picture into {SIDE} × {SIDE} patches, and these have {size} pixels; "
                f"they need at least {SIDE} × {SIDE}"
            )


class Puzzle(nn.Module):
    """Features of patches [N, 9, D] → [N, width]."""

    width: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        patches = HeadPerceptron((self.width,), name="patch")(x, train=train)
        return HeadPerceptron((self.width,), name="together")(patches.reshape(len(x), -1), train=train)


class State(NamedTuple):
    """The network with its heads, and a representation of each unlabelled example."""

    learner: Learner
    memory: Array  # [N, width]


def build(config: PIRL, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    encoder, puzzle = EncoderWithHeads(network, {"projector": HeadPerceptron((config.width,))}), Puzzle(config.width)

    def init(key: Array, views: Views, start: Weights | None) -> State:
        assert views.indices is not None  # the loop gives them to methods that declare needs_indices
        params, stats = encoder.init(key, views.weak, start)
        (features, _) = jax.eval_shape(
            lambda: network.features(params[NETWORK], stats[NETWORK], views.weak, train=False)
        )
        empty = jnp.zeros((1, SIDE**2, features.shape[-1]), features.dtype)
        own = puzzle.init(jax.random.fold_in(key, 1), empty, train=False)["params"]
        learner = learners.create(network, optimizer, key, views.weak, Weights(params | {"puzzle": own}, stats))
        shape = (views.indices.totals.unlabeled, config.width)
        return State(learner, direction(jax.random.normal(jax.random.fold_in(key, 2), shape)))

    def step(state: State, views: Views, key: Array) -> tuple[State, Metrics]:
        assert views.indices is not None
        learner, memory = state
        rows = views.indices.unlabeled
        order_key, negatives_key, key = jax.random.split(key, 3)
        m_i = memory[rows]
        drawn = jax.random.randint(negatives_key, (config.negatives,), 0, len(memory))
        m_n = memory[drawn]
        pieces = patches(views.strong, config.enlarge)  # [9 U, …]
        order = jax.vmap(lambda own: jax.random.permutation(own, SIDE**2))(jax.random.split(order_key, len(rows)))

        def loss(params: PyTree) -> tuple[Array, tuple[Array, Array, PyTree]]:
            network_params, stats = params[NETWORK], learner.stats
            features, moved = network.features(network_params, stats[NETWORK], pieces, train=True, key=key)
            in_order = features.reshape(len(rows), SIDE**2, -1)
            shuffled = jnp.take_along_axis(in_order, order[..., None], axis=1)
            a = direction(puzzle.apply({"params": params["puzzle"]}, shuffled, train=True))  # type: ignore[arg-type]
            outputs, stats = encoder.apply(params, stats | {NETWORK: moved}, views.weak, key)
            b = direction(outputs["projector"])
            costs = config.jigsaw_weight * noise_contrast(a, m_i, m_n, config.temperature)
            costs += (1 - config.jigsaw_weight) * noise_contrast(b, m_i, m_n, config.temperature)
            return jnp.mean(costs), (a, b, stats)

        (contrast, (a, b, stats)), gradient = jax.value_and_grad(loss, has_aux=True)(learner.params)
        others = jnp.where(drawn == rows[:, None], -jnp.inf, a @ m_n.T)  # not the example itself, if it was drawn
        nearest = jnp.sum(a * m_i, axis=-1) > jnp.max(others, axis=-1)
        new_memory = memory.at[rows].set(direction((m_i + b) / 2))
        return State(learners.update(learner, optimizer, gradient, stats), new_memory), {
            "contrast_loss": contrast,
            "contrast_accuracy": jnp.mean(nearest.astype(a.dtype)),
            "spread": spread(b),
            "gradient_norm": optax.tree.norm(gradient),
        }

    return Algorithm(init, step, lambda state: network_of(state.learner.weights))


def noise_contrast(z: Array, m_i: Array, m_n: Array, temperature: float) -> Array:
    """N(z) of each example: −log h_i(z) − Σ_n log(1 − h_n(z)): [U]."""
    own = jnp.sum(z * m_i, axis=-1, keepdims=True)
    log_h = jax.nn.log_softmax(jnp.concatenate([own, z @ m_n.T], axis=-1) / temperature)
    others = jnp.log1p(-jnp.exp(jnp.minimum(log_h[:, 1:], -1e-6)))  # h = 1 would have an infinite cost
    return -log_h[:, 0] - jnp.sum(others, axis=-1)


def patches(pictures: Array, enlarge: bool) -> Array:
    """Cut pictures [N, H, W, C] into nine patches each, those of a picture one after another: [9 N, H/3, W/3, C]."""
    count, height, width, channels = pictures.shape
    h, w = height // SIDE, width // SIDE
    grid = pictures[:, : SIDE * h, : SIDE * w].reshape(count, SIDE, h, SIDE, w, channels)
    cut = jnp.swapaxes(grid, 2, 3).reshape(count * SIDE**2, h, w, channels)
    return jax.image.resize(cut, (len(cut), height, width, channels), "linear") if enlarge else cut
