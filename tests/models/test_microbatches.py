"""A batch in parts: the same gradient without batch norm, and with it that of each part by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from metapl import config as configs
from metapl import models
from metapl.config import Config, Stage
from metapl.models.microbatches import in_microbatches
from metapl.models.mlp import MLP
from metapl.models.norm import BatchNorm
from metapl.schema import ConfigError, validate
from metapl.types import Network, Weights

X = jax.random.normal(jax.random.key(0), (12, 5))
LABELS = jnp.arange(12) % 3


class Normed(nn.Module):
    rate: float = 0.0

    @nn.compact
    def __call__(self, x, train):
        x = nn.tanh(BatchNorm(name="norm")(nn.Dense(7)(x), train=train))
        return nn.Dense(3)(nn.Dropout(self.rate, deterministic=not train)(x))


def normed(rate: float = 0.0) -> Network:
    module = Normed(rate)

    def apply(params, stats, inputs, *, train, key=None):
        rngs = {} if key is None else {"dropout": key}
        logits, changed = module.apply(
            {"params": params, "batch_stats": stats}, inputs, train, rngs=rngs, mutable=["batch_stats"]
        )
        return logits, changed["batch_stats"]

    def init(key, inputs):
        variables = module.init(key, inputs, False)
        return Weights(variables["params"], variables["batch_stats"])

    return Network(init, apply, normed)


def loss_of(network, weights, key=None):
    """A loss that couples the examples, as a batch's is."""

    def loss(params):
        logits, stats = network.apply(params, weights.stats, X, train=True, key=key)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), LABELS[:, None], 1)
        return jnp.log(jnp.sum(jnp.exp(-picked))), (logits, stats)

    return loss


def test_without_batch_norm_a_step_is_the_same():
    network = models.build(MLP(hidden=(6,), init_range=1.0), 3)
    weights = network.init(jax.random.key(1), X)
    direction = jax.tree.map(jnp.cos, weights.params)

    @jax.jit
    def all_of_it():
        found = []
        for some in (network, in_microbatches(network, 3)):
            loss = loss_of(some, weights)
            forward = jax.jvp(loss, (weights.params,), (direction,), has_aux=False)
            found.append((jax.grad(loss, has_aux=True)(weights.params), forward))
        return found

    whole, parts = all_of_it()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, parts)


def test_batch_norm_sees_one_microbatch_at_a_time():
    network = normed()
    weights = network.init(jax.random.key(1), X)
    weights = weights._replace(stats=jax.tree.map(lambda leaf: leaf + 0.5, weights.stats))

    def by_hand(params, stats, inputs, *, train, key):
        answers = [network.apply(params, stats, inputs[j::4], train=train, key=key) for j in range(4)]
        logits = jnp.zeros((12, 3))
        for j, (some, _) in enumerate(answers):
            logits = logits.at[j::4].set(some)
        return logits, jax.tree.map(lambda *leaves: sum(leaves) / 4, *(stats for _, stats in answers))

    @jax.jit
    def both():
        return [
            jax.grad(loss_of(some, weights), has_aux=True)(weights.params)
            for some in (in_microbatches(network, 4), Network(network.init, by_hand, normed))
        ]

    parts, expected = both()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), parts, expected)
    # One decay a step, not four, and a mean that is the whole batch's.
    _, (_, whole) = jax.grad(loss_of(network, weights), has_aux=True)(weights.params)
    np.testing.assert_allclose(parts[1][1]["norm"]["mean"], whole["norm"]["mean"], rtol=1e-5)


def test_microbatches_draw_their_own_dropout_and_the_twin_has_microbatches_too():
    network = in_microbatches(normed(), 2).with_dropout(0.5)
    weights = network.init(jax.random.key(1), X)
    same = jnp.repeat(X[:6], 2, axis=0)  # row 2i goes to the first part, 2i + 1, its copy, to the second
    logits, _ = network.apply(weights.params, weights.stats, same, train=True, key=jax.random.key(2))
    assert not np.allclose(logits[0::2], logits[1::2])
    twin, _ = in_microbatches(normed(), 2).apply(weights.params, weights.stats, same, train=True, key=jax.random.key(2))
    np.testing.assert_allclose(twin[0::2], twin[1::2], rtol=1e-5)


def test_evaluation_is_the_networks_own():
    network = normed()
    assert in_microbatches(network, 1) is network
    weights = network.init(jax.random.key(1), X)
    one, other = (
        jax.make_jaxpr(lambda p, some=some: some.apply(p, weights.stats, X[:5], train=False)[0])(weights.params)
        for some in (network, in_microbatches(network, 3))
    )
    assert str(one) == str(other)


def test_only_one_microbatch_is_in_memory():
    """The program keeps no activation of all parts: none has the batch's rows and the hidden layer's units."""
    network = in_microbatches(normed(), 4)
    weights = network.init(jax.random.key(1), X)
    program = str(jax.make_jaxpr(jax.grad(loss_of(network, weights), has_aux=True))(weights.params))
    assert "f32[3,7]" in program
    assert "f32[4,3,7]" not in program
    assert "f32[12,7]" not in program


def test_what_does_not_divide_is_refused():
    network = in_microbatches(normed(), 5)
    weights = network.init(jax.random.key(1), X)
    with pytest.raises(ConfigError, match="microbatches = 5 does not divide a pass of 12 examples"):
        network.apply(weights.params, weights.stats, X, train=True)
    with pytest.raises(ConfigError, match="labeled_batch = 6 does not divide into microbatches = 4"):
        validate(Config(stages=(Stage(labeled_batch=6, unlabeled_batch=64, microbatches=4),)))
    text = "[[stages]]\nmethod.name = 'uda'\nlabeled_batch = 8\nunlabeled_batch = 10\nmicrobatches = 4"
    with pytest.raises(ConfigError, match=r"unlabeled_batch = 10 does not divide into microbatches = 4"):
        configs.parse(text, "here")
