"""The method that docs/add_a_method.md adds: the table, one step computed by hand, the contract."""

from functools import partial

import entropy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, models
from metapl import config as configs
from metapl.algorithms import learner
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.types import MethodConfig, Views
from tests.contract import test_algorithms as contract


@pytest.fixture
def network():
    return models.build(MLP(hidden=(8,), init_range=0.5), classes=2)


@pytest.fixture
def views() -> Views:
    labels = jnp.arange(8, dtype=jnp.int32) % 2
    x_l = 3.0 * (2 * labels[:, None] - 1) + jax.random.normal(jax.random.key(0), (8, 2))
    x_u = jax.random.normal(jax.random.key(1), (32, 2))
    return Views(x_l, labels, x_u, x_u + 0.1, x_l + 0.1)


@pytest.fixture(autouse=True)
def in_the_table(monkeypatch):
    monkeypatch.setitem(algorithms.METHODS, entropy.Entropy, partial(learner.alone, entropy.objective))
    monkeypatch.setitem(configs.KINDS[MethodConfig], "entropy", entropy.Entropy)


def test_one_step_is_the_equation(network, views):
    """θ' = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ H(f(x_u; θ)) ]."""
    algorithm = algorithms.build(entropy.Entropy(weight=0.3, optimizer=Optimizer(0.2)), network, 10)
    learner = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(learner, views, jax.random.key(1))

    def loss(params):
        log_l, log_u = (
            jax.nn.log_softmax(network.apply(params, {}, x, train=False)[0]) for x in (views.labeled, views.weak)
        )
        supervised = -sum(log_l[i, y] for i, y in enumerate(views.labels)) / 8
        return supervised - 0.3 * sum(jnp.exp(row) @ row for row in log_u) / 32

    gradient = jax.jit(jax.grad(loss))(learner.params)
    by_hand = jax.tree.map(lambda p, g: p - 0.2 * g, learner.params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.params, by_hand)
    assert 0 < metrics["entropy"] <= np.log(2)


@pytest.mark.parametrize(
    "check",
    [
        contract.test_a_step_keeps_the_states_shape_and_gives_finite_numbers,
        contract.test_it_learns_to_tell_two_blobs_apart,
    ],
)
def test_it_keeps_the_contract(check):
    check(entropy.Entropy)


def test_its_settings_can_be_read_and_its_fields_are_explained():
    text = '[[stages]]\nsteps = 10\nmethod = {name = "entropy", weight = 0.3}\n'
    assert configs.parse(text, "test").stages[0].method == entropy.Entropy(weight=0.3)
    contract.test_its_settings_say_what_each_field_does(entropy.Entropy)
