"""PIRL's step against its equation, example by example; its patches; what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import optim
from metapl.algorithms import pirl
from metapl.config import parse
from metapl.schema import ConfigError
from metapl.types import Indices, Totals, Views
from tests.algorithms.by_hand import RATE, assert_close, dense, descended, unit
from tests.algorithms.tiny import hidden_layer, tiny_network

ROWS = np.array([3, 0, 4])


def as_points(inputs):
    """The tiny network sees the first two values of a picture."""
    return inputs.reshape(len(inputs), -1)[:, :2]


def picture_network():
    network = tiny_network()

    def features(params, stats, inputs, *, train, key=None):
        return hidden_layer(params, as_points(inputs)), stats

    return network._replace(features=features)


def views():
    keys = jax.random.split(jax.random.key(2), 2)
    weak, strong = (jax.random.normal(key, (3, 7, 6, 1)) for key in keys)
    labeled = jnp.zeros((2, 7, 6, 1))
    return Views(labeled, jnp.arange(2), weak, strong, indices=Indices(jnp.arange(2), jnp.asarray(ROWS), Totals(2, 5)))


def test_one_step_by_hand():
    config = pirl.PIRL(4, 0.5, 0.3, width=4, optimizer=optim.Optimizer(RATE))
    algorithm, seen = pirl.build(config, picture_network(), 10), views()
    state = algorithm.init(jax.random.key(0), seen, None)
    after, metrics = jax.jit(algorithm.step)(state, seen, jax.random.key(1))
    order_key, negatives_key, _ = jax.random.split(jax.random.key(1), 3)
    memory = np.asarray(state.memory)
    drawn = memory[jax.random.randint(negatives_key, (4,), 0, 5)]
    orders = np.asarray([jax.random.permutation(key, 9) for key in jax.random.split(order_key, 3)])

    def noise_contrast(z, own):
        near = [jnp.exp(z @ m / 0.5) for m in (own, *drawn)]
        return -jnp.log(near[0] / sum(near)) - sum(jnp.log(1 - one / sum(near)) for one in near[1:])

    def whole(params):
        return [
            unit(dense(params["projector"]["dense0"], hidden_layer(params["network"], as_points(seen.weak)))[i])
            for i in range(3)
        ]

    def loss(params):
        total, bs = 0.0, whole(params)
        for i in range(3):
            cells = [seen.strong[i : i + 1, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2] for r in range(3) for c in range(3)]
            cells = [cells[place] for place in orders[i]]
            parts = [
                dense(params["puzzle"]["patch"]["dense0"], hidden_layer(params["network"], as_points(x)))[0]
                for x in cells
            ]
            a = unit(dense(params["puzzle"]["together"]["dense0"], jnp.concatenate(parts)))
            own = memory[ROWS[i]]
            total += (0.3 * noise_contrast(a, own) + 0.7 * noise_contrast(bs[i], own)) / 3
        return total

    params = state.learner.params
    assert_close(after.learner.params, descended(params, loss))
    np.testing.assert_allclose(metrics["contrast_loss"], jax.jit(loss)(params), rtol=1e-4)
    expected = memory.copy()
    for row, b in zip(ROWS, jax.jit(whole)(params), strict=True):
        expected[row] = unit(expected[row] / 2 + b / 2)
    assert_close(after.memory, expected)


def test_patches_are_the_nine_cells_of_each_picture():
    pictures = jnp.arange(2 * 7 * 6 * 3).reshape(2, 7, 6, 3)
    cut = pirl.patches(pictures, enlarge=False)
    assert cut.shape == (18, 2, 2, 3)
    np.testing.assert_array_equal(cut[9 + 5], pictures[1, 2:4, 4:6])
    assert pirl.patches(pictures.astype(jnp.float32), enlarge=True).shape == (18, 7, 6, 3)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("two_moons", "stages.0.method: pirl with these settings needs pictures, and the source two_moons has none"),
        ("digits", "pirl with these settings shows the network pictures of other sizes, and mlp takes one size only"),
    ],
)
def test_what_it_cannot_cut_is_refused(data, words):
    with pytest.raises(ConfigError, match=words):
        parse(f'data.name = "{data}"\n[[stages]]\nmethod.name = "pirl"\n[[stages]]', "my.toml")
