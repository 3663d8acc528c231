"""SimCLR (Chen et al., 2020): two views of an example are near each other, and far from all other examples.

    z        = g(f(t(x_u))), g(f(t'(x_u)))                    2 U projections of U examples, each of length 1
    ℓ(i, j)  = −log exp(z_i · z_j / τ) / Σ_{k ≠ i} exp(z_i · z_k / τ)
    (θ, φ)' = (θ, φ) − η ∇ (1 / 2U) Σ_i ℓ(i, i's other view)

f is the network without its classifier, g a perceptron with batch norm ("projection head"), whose weights φ belong to
this stage. The negatives are the other examples of the batch. The next stage trains the classifier and finetunes f.

SimCLR v2 (Chen et al., 2020b) has three layers in g, and finetunes from the first of them: that layer belongs to the
network that is finetuned. A network with a `hidden_layer` is that: its hidden layer is trained here and kept, and the
`layers` of g are those above it, two.

The authors' optimizer is LARS, with batches of 4,096; t and t' are random crops with strong changes of colour:
`augmentation.strong.name = "colors"`.

| symbol   | name                                  |
|----------|---------------------------------------|
| f(·; θ)  | network.features                      |
| g(·; φ)  | encoder.heads["projector"]            |
| t(x_u), t'(x_u) | views.all_strong               |
| τ        | config.temperature                    |
| (θ, φ)   | learner.params                        |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from metapl import optim
from metapl.algorithms import learner as learners
from metapl.algorithms.contrast import direction, spread
from metapl.algorithms.projection_heads import EncoderWithHeads, HeadPerceptron, network_of
from metapl.types import Algorithm, Array, Learner, MethodConfig, Metrics, Network, PyTree, Views, Weights


@dataclass(frozen=True)
class SimCLR(MethodConfig):
    """Learn features without labels: tell each example's other view from all other examples of the batch."""

    name: ClassVar[str] = "simclr"
    title: ClassVar[str] = "SimCLR"
    uses_labels: ClassVar[bool] = False
    strong_views: ClassVar[int] = 2

    temperature: Annotated[float, Gt(0)] = 0.1
    """τ: similarities are divided by it; the authors: 0.1 on ImageNet, 0.5 on CIFAR-10."""
    layers: Annotated[int, Ge(1)] = 2
    """Layers of the projection head."""
    hidden: Annotated[int, Ge(1)] = 2048
    """Width of the projection head's hidden layers; the authors: that of ResNet-50's features."""
    width: Annotated[int, Ge(2)] = 128
    """Width of the projections."""
    optimizer: optim.Optimizer = optim.Optimizer()

    def check_batches(self, labeled: int, unlabeled: int) -> None:
        """Refuse a batch without negatives."""
        if unlabeled < 2:
            raise ValueError(f"unlabeled_batch = {unlabeled}: simclr compares an example with others; take at least 2")


def build(config: SimCLR, network: Network, steps: int) -> Algorithm:
    """Make the method from its settings."""
    optimizer = optim.build(config.optimizer, steps)
    widths = (*[config.hidden] * (config.layers - 1), config.width)
    encoder = EncoderWithHeads(network, {"projector": HeadPerceptron(widths, norm="all")})

    def init(key: Array, views: Views, start: Weights | None) -> Learner:
        return learners.create(network, optimizer, key, views.strong, encoder.init(key, views.strong, start))

    def step(learner: Learner, views: Views, key: Array) -> tuple[Learner, Metrics]:
        x_u = jnp.concatenate(views.all_strong)

        def loss(params: PyTree) -> tuple[Array, tuple[Array, PyTree]]:
            outputs, stats = encoder.apply(params, learner.stats, x_u, key)
            z = direction(outputs["projector"])
            similarities = other_similarities(z, config.temperature)
            costs = optax.softmax_cross_entropy_with_integer_labels(similarities, other_view(len(z)))
            return jnp.mean(costs), (z, stats)

        (contrast, (z, stats)), gradient = jax.value_and_grad(loss, has_aux=True)(learner.params)
        nearest = jnp.argmax(other_similarities(z, config.temperature), axis=-1)
        return learners.update(learner, optimizer, gradient, stats), {
            "contrast_loss": contrast,
            "contrast_accuracy": jnp.mean((nearest == other_view(len(z))).astype(z.dtype)),
            "spread": spread(z),
            "gradient_norm": optax.tree.norm(gradient),
        }

    return Algorithm(init, step, lambda learner: network_of(learner.weights))


def other_similarities(z: Array, temperature: float) -> Array:
    """z_i · z_k / τ for all k ≠ i; −∞ for k = i: [2U, 2U]."""
    return jnp.where(jnp.eye(len(z), dtype=bool), -jnp.inf, z @ z.T / temperature)


def other_view(count: int) -> Array:
    """Row i's example is also in row (i + U) mod 2U: [2U]."""
    return (jnp.arange(count) + count // 2) % count
