"""SimCLR's step against its equation, written out pair by pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models, optim
from metapl.algorithms import simclr
from metapl.config import Stage
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError, validate
from metapl.types import Views
from tests.algorithms.by_hand import RATE, assert_close, dense, descended, norm, unit
from tests.algorithms.tiny import hidden_layer, tiny_network, tiny_views


def test_one_step_by_hand():
    views = tiny_views()
    views = views._replace(weak=views.weak[:3], strong=views.strong[:3], more_strong=(views.weak[:3] - 0.3,))
    config = simclr.SimCLR(0.5, hidden=6, width=4, optimizer=optim.Optimizer(learning_rate=RATE))
    algorithm = simclr.build(config, tiny_network(), 10)
    learner = algorithm.init(jax.random.key(0), views, None)
    after, metrics = jax.jit(algorithm.step)(learner, views, jax.random.key(1))

    def loss(params):
        g, x = params["projector"], jnp.concatenate([views.strong, views.weak - 0.3])
        hidden = jax.nn.relu(norm(g["norm0"], dense(g["dense0"], hidden_layer(params["network"], x))))
        z = [unit(row) for row in norm(g["norm1"], dense(g["dense1"], hidden))]
        total = 0.0
        for i in range(6):
            others = [jnp.exp(z[i] @ z[k] / 0.5) for k in range(6) if k != i]
            total -= jnp.log(jnp.exp(z[i] @ z[(i + 3) % 6] / 0.5) / sum(others))
        return total / 6

    assert_close(after.params, descended(learner.params, loss))
    np.testing.assert_allclose(metrics["contrast_loss"], jax.jit(loss)(learner.params), rtol=1e-5)


def test_the_network_comes_out_without_the_head_and_with_its_classifier_untouched():
    views, network = tiny_views(), tiny_network()
    views = views._replace(more_strong=(views.weak,))
    algorithm = simclr.build(simclr.SimCLR(hidden=6), network, 10)
    learner = algorithm.init(jax.random.key(0), views, None)
    after, _ = jax.jit(algorithm.step)(learner, views, jax.random.key(1))
    weights = algorithm.predictor(after)
    assert jax.tree.structure(weights) == jax.tree.structure(network.init(jax.random.key(0), views.weak))
    assert_close(weights.params["out"], learner.params["network"]["out"])
    assert not np.allclose(weights.params["hidden"]["kernel"], learner.params["network"]["hidden"]["kernel"])


def test_v2_trains_the_first_layer_of_the_head_and_hands_it_on():
    x = jax.random.normal(jax.random.key(0), (4, 8, 8, 1))
    views = Views(x, jnp.arange(4), x, x + 0.3 * x[::-1], more_strong=(x - 0.3 * x[::-1],))
    config = simclr.SimCLR(hidden=6, width=4, optimizer=optim.Optimizer(learning_rate=RATE))
    algorithm = simclr.build(config, models.build(WideResNet(depth=10, width=1, hidden_layer=5), 3), 10)
    learner = jax.jit(lambda: algorithm.init(jax.random.key(0), views, None))()
    assert learner.params["projector"]["dense0"]["kernel"].shape == (5, 6)
    after, _ = jax.jit(algorithm.step)(learner, views, jax.random.key(1))
    before, weights = learner.params["network"], algorithm.predictor(after)
    assert not np.allclose(weights.params["hidden"]["kernel"], before["hidden"]["kernel"])
    assert weights.params["head"]["kernel"].shape == (5, 3)
    np.testing.assert_array_equal(weights.params["head"]["kernel"], before["head"]["kernel"])


def test_a_batch_without_negatives_is_refused():
    with pytest.raises(ConfigError, match="unlabeled_batch = 1: simclr compares an example with others"):
        validate(Stage(simclr.SimCLR(), unlabeled_batch=1))
