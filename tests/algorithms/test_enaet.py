"""EnAET's step against its equations, on tiny pictures, in double precision; its warps against scipy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from metapl.algorithms import enaet, mixmatch
from tests.algorithms.single_steps import RATE, SGD, assert_close, begin, descended, softmax
from tests.algorithms.test_remixmatch import features, logits, network, pictures

pytestmark = pytest.mark.usefixtures("float64")
FACTORS = {"projective": 0.9, "affine": 0.8, "similarity": 0.7, "euclidean": 0.6}


def test_one_step_by_hand():
    views = pictures((4, 4, 1))
    views, key = views._replace(more_weak=(views.weak + 0.1,)), jax.random.key(1)
    mixing = {"weight": 5.0, "ramp_steps": 0, "optimizer": SGD}
    method = enaet.EnAET(
        **mixing, **{f"{kind}_weight": f for kind, f in FACTORS.items()}, consistency_weight=1.5, hidden=6
    )
    algorithm, state = begin(method, views=views, network=network())
    after, metrics = algorithm.step(state, views, key)
    theta = state.params

    own = jax.random.fold_in(key, 1)
    guess = (softmax(logits(theta, views.weak)) + softmax(logits(theta, views.weak + 0.1))) / 2
    q = guess**2 / np.sum(guess**2, axis=-1, keepdims=True)
    drawn = {k: enaet.draw(k, one, 6, jnp.float64) for k, one in zip(FACTORS, jax.random.split(own, 4), strict=True)}
    seen = {kind: enaet.warp(views.weak, matrices) for kind, matrices in drawn.items()}

    def error(params, head, kind):
        both = jnp.concatenate([features(params, views.weak), features(params, seen[kind])], -1)
        hidden = jnp.maximum(both @ head["dense0"]["kernel"] + head["dense0"]["bias"], 0)
        told = hidden @ head["dense1"]["kernel"] + head["dense1"]["bias"]
        wanted = (np.asarray(drawn[kind]) - np.eye(3)).reshape(6, 9)[:, :8]
        return sum(jnp.sum((told[i] - wanted[i]) ** 2) for i in range(6)) / 48

    def beyond_mixmatch(params):
        told = sum(factor * error(params, state.memory[kind].params, kind) for kind, factor in FACTORS.items())
        rows = [jax.nn.log_softmax(logits(params, x)) for x in seen.values()]
        kl = sum(jnp.sum(q * (np.log(q) - row)) / 6 for row in rows) / 4
        return told + 1.5 * kl

    mixed, _ = begin(mixmatch.MixMatch(**mixing), views=views, network=network())[0].step(
        state._replace(memory=()), views, key
    )
    step = jax.tree.map(lambda a, b: a - b, descended(theta, beyond_mixmatch), theta)
    assert_close(after.params, jax.tree.map(jnp.add, mixed.params, step))
    for kind in FACTORS:
        phi = state.memory[kind].params
        gradient = jax.jit(jax.grad(lambda head, kind=kind: error(theta, head, kind)))(phi)
        assert_close(after.memory[kind].params, jax.tree.map(lambda w, g: w - RATE * g, phi, gradient))
    assert metrics["transformation_loss"] > 0


def test_a_warp_is_scipys():
    picture = np.random.default_rng(0).normal(size=(5, 7))
    matrix = np.asarray(enaet.draw("projective", jax.random.key(2), 1, jnp.float64))[0]
    y, x = np.mgrid[-1:1:5j, -1:1:7j]
    from_x, from_y, depth = np.einsum("ij,jhw->ihw", matrix, np.stack([x, y, np.ones_like(x)]))
    places = [(from_y / depth + 1) * 2, (from_x / depth + 1) * 3]
    expected = ndimage.map_coordinates(picture, places, order=1, mode="grid-constant")
    warped = enaet.warp(jnp.asarray(picture)[None, :, :, None], jnp.asarray(matrix)[None])[0, :, :, 0]
    np.testing.assert_allclose(warped, expected, atol=1e-12)
    unmoved = enaet.warp(jnp.asarray(picture)[None, :, :, None], jnp.eye(3)[None])
    np.testing.assert_allclose(unmoved[0, :, :, 0], picture, atol=1e-12)


def test_kinds_contain_each_other():
    """A Euclidean transformation keeps lengths, a similarity keeps angles, an affine one has no depth."""
    drawn = {kind: np.asarray(enaet.draw(kind, jax.random.key(0), 9, jnp.float64)) for kind in FACTORS}
    gram = {kind: m[:, :2, :2].transpose(0, 2, 1) @ m[:, :2, :2] for kind, m in drawn.items()}
    np.testing.assert_allclose(gram["euclidean"], np.broadcast_to(np.eye(2), (9, 2, 2)), atol=1e-12)
    np.testing.assert_allclose(gram["similarity"], gram["similarity"][:, :1, :1] * np.eye(2), atol=1e-12)
    assert np.abs(gram["affine"][:, 0, 1]).min() > 0
    for kind, matrices in drawn.items():
        assert (matrices[:, 2, :2] != 0).any() == (kind == "projective")
