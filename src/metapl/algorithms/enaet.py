"""EnAET (Wang et al., 2019): MixMatch, and decoders that tell from features how a picture was transformed.

    L_mix = MixMatch's loss,   q = its guess for x_u (mixmatch.py)                                  q held fixed
    M_k   ~ transformations of kind k: projective, affine, similarity, Euclidean
    AET_k = ‖ D_k(features(x_u), features(M_k x_u); φ_k) − m(M_k) ‖²            a mean over examples and numbers
    KL_k  = KL(q ‖ f(M_k x_u; θ))
    θ'    = θ − η ∇_θ [ L_mix + Σ_k λ_k AET_k + λ_c mean_k KL_k ]
    φ_k'  = φ_k − η ∇_{φ_k} AET_k

M is a matrix that maps where a pixel is shown to where it is taken from, in units of half a side; m(M) are its first
eight numbers, minus those of the identity. Pixels from outside are grey. The kinds contain each other:

| kind       | turned by | moved by | scaled by  | sheared by | corners |
|------------|-----------|----------|------------|------------|---------|
| Euclidean  | ± 30°     | ± 0.2    |            |            |         |
| similarity | ± 30°     | ± 0.2    | 0.8 to 1.2 |            |         |
| affine     | ± 30°     | ± 0.2    | 0.8 to 1.2 | ± 0.3      |         |
| projective | ± 30°     | ± 0.2    | 0.8 to 1.2 | ± 0.3      | ± 0.125 |

q in KL_k is that of the authors' code. Differences from it: no transformation of colours (its λ is the smallest, 0.05)
and no view of exchanged patches, ranges as above, eight numbers for every kind, decoders of one hidden layer. The λ_k
do not change over the steps; there they rise during the first tenth.

| symbol       | name                                    |
|--------------|-----------------------------------------|
| λ_k          | config.projective_weight, …             |
| λ_c          | config.consistency_weight               |
| D_k, φ_k     | learner.memory[k]                       |
| x_u          | views.weak                              |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt
from jax.scipy.ndimage import map_coordinates

from metapl import optim
from metapl.algorithms import mixmatch
from metapl.algorithms.side_head import SideHead, SideHeadState
from metapl.types import Array, Learner, LossTerms, MethodConfig, Metric, Network, Objective, PyTree, Views

KINDS = ("projective", "affine", "similarity", "euclidean")
NUMBERS = 8


@dataclass(frozen=True)
class EnAET(MethodConfig):
    """Train as MixMatch does, and on telling how pictures were transformed."""

    name: ClassVar[str] = "enaet"
    title: ClassVar[str] = "EnAET"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("transformation_loss", "EnAET: Σ λ_k AET_k, squared errors of the transformations' numbers", "loss"),
    )

    weight: Annotated[float, Ge(0)] = 75.0
    """MixMatch's λ_u: factor of its unlabelled term; 75 on CIFAR-10 and 250 on SVHN."""
    views: Annotated[int, Ge(1)] = 2
    """MixMatch's K: weak views of each unlabelled example whose mean prediction is its guessed label."""
    temperature: Annotated[float, Gt(0)] = 0.5
    """MixMatch's T."""
    mixup: Annotated[float, Gt(0)] = 0.75
    """MixMatch's α."""
    ramp_steps: Annotated[int, Ge(0)] = 16384
    """Steps over which λ_u rises linearly from 0, as MixMatch's; 0: no rise. The authors: 50 epochs."""
    projective_weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the projective transformations' errors."""
    affine_weight: Annotated[float, Ge(0)] = 0.75
    """Factor of the affine ones'."""
    similarity_weight: Annotated[float, Ge(0)] = 0.5
    """Factor of the similarities' errors."""
    euclidean_weight: Annotated[float, Ge(0)] = 0.2
    """Factor of the Euclidean ones'."""
    consistency_weight: Annotated[float, Ge(0)] = 1.0
    """λ_c: factor of the divergence between a picture's guessed label and the predictions for its transformations."""
    hidden: Annotated[int, Ge(1)] = 256
    """Units of the decoders' hidden layer."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    @property
    def views_needed(self) -> tuple[int, int]:
        """Return K weak views."""
        return self.views, self.strong_views

    @property
    def needs_pictures(self) -> bool:
        """Points have no pixels to move."""
        return True

    def factor(self, kind: str) -> float:
        """Return λ_k."""
        factor: float = getattr(self, f"{kind}_weight")
        return factor


def objective(config: EnAET, network: Network, steps: int) -> Objective:
    """L_mix + Σ_k λ_k AET_k + λ_c mean_k KL_k."""
    shared = ("weight", "views", "temperature", "mixup", "ramp_steps", "label_smoothing")
    mixing = mixmatch.MixMatch(**{name: getattr(config, name) for name in shared})
    mix = mixmatch.objective(mixing, network, steps)
    decoder = SideHead((config.hidden, NUMBERS), network, optim.build(config.optimizer, steps), inputs=2)

    def start(learner: Learner, views: Views, key: Array) -> dict[str, SideHeadState]:
        keys = jax.random.split(key, len(KINDS))
        return {kind: decoder.start(learner, views.weak, own) for kind, own in zip(KINDS, keys, strict=True)}

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        own = mix.loss(params, learner, views, key)
        guess_key = jax.random.split(key, 3)[0]  # MixMatch's: the same passes once more, which the compiler does once
        q = mixmatch.guess(mixing, network, params, learner, views.all_weak[: config.views], guess_key)
        key = jax.random.fold_in(key, 1)
        weak, _ = network.apply(params, learner.stats, views.weak, train=True, key=key)
        features, _ = network.features(params, learner.stats, views.weak, train=True, key=key)
        told, agreement, heads = jnp.zeros((), q.dtype), jnp.zeros((), q.dtype), {}
        for kind, draw_key in zip(KINDS, jax.random.split(key, len(KINDS)), strict=True):
            matrices = draw(kind, draw_key, len(q), q.dtype)
            seen = params, learner.stats, warp(views.weak, matrices)
            both = jnp.concatenate([features, network.features(*seen, train=True, key=draw_key)[0]], axis=-1)
            error, heads[kind] = decoder.learn(learner.memory[kind], squared_error(decoder, matrices), both)
            told += config.factor(kind) * error
            log_p = jax.nn.log_softmax(network.apply(*seen, train=True, key=draw_key)[0])
            agreement += jnp.mean(jnp.sum(q * (jnp.log(q + 1e-12) - log_p), axis=-1)) / len(KINDS)
        metrics = own.metrics | {"transformation_loss": told, "consistency_loss": agreement}
        unlabeled = own.unlabeled + told + config.consistency_weight * agreement
        return own._replace(unlabeled=unlabeled, metrics=metrics, weak_logits=weak, memory=heads)

    return Objective(terms, start)


def squared_error(decoder: SideHead, matrices: Array) -> Callable[[PyTree, Array], Array]:
    """‖ D(features) − m(M) ‖², a mean over examples and numbers."""
    wanted = (matrices - jnp.eye(3, dtype=matrices.dtype)).reshape(-1, 9)[:, :NUMBERS]
    return lambda phi, both: jnp.mean((decoder(phi, both) - wanted) ** 2)


def draw(kind: str, key: Array, size: int, dtype: jnp.dtype) -> Array:
    """Draw M for each picture: [U, 3, 3]."""
    u = jax.random.uniform(key, (size, 7), dtype, -1, 1)
    angle, one, zero = u[:, 0] * jnp.pi / 6, jnp.ones(size, dtype), jnp.zeros(size, dtype)
    scale = 1 + 0.2 * u[:, 3] if kind != "euclidean" else one
    shear = 0.3 * u[:, 4] if kind in ("affine", "projective") else zero
    tilt = 0.125 * u[:, 5:] if kind == "projective" else jnp.zeros((size, 2), dtype)
    turned = jnp.stack([jnp.cos(angle), -jnp.sin(angle), jnp.sin(angle), jnp.cos(angle)], -1).reshape(size, 2, 2)
    sheared = jnp.stack([one, shear, zero, one], -1).reshape(size, 2, 2)
    linear = scale[:, None, None] * (turned @ sheared)
    top = jnp.concatenate([linear, 0.2 * u[:, 1:3, None]], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([tilt, one[:, None]], -1)[:, None]], axis=1)


def warp(pictures: Array, matrices: Array) -> Array:
    """Take each pixel from where M says, between four pixels; 0, which is grey, comes from outside."""
    height, width = pictures.shape[1:3]
    y, x = (jnp.linspace(-1, 1, side, dtype=pictures.dtype) for side in (height, width))
    places = jnp.stack([*jnp.meshgrid(x, y), jnp.ones((height, width), pictures.dtype)])  # [3, H, W]

    def one(picture: Array, matrix: Array) -> Array:
        from_x, from_y, depth = jnp.einsum("ij,jhw->ihw", matrix, places)
        rows, columns = ((place / depth + 1) / 2 * (side - 1) for place, side in ((from_y, height), (from_x, width)))

        def take(channel: Array) -> Array:
            return map_coordinates(channel, [rows, columns], order=1, mode="constant")

        return jax.vmap(take, in_axes=-1, out_axes=-1)(picture)

    return jax.vmap(one)(pictures, matrices)
