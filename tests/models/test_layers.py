"""What the picture networks share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from metapl.models.layers import classify, conv, max_pool


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        return classify(x, 1, dropout=0.25, train=train, kernel_init=nn.initializers.ones)


def test_convolutions_start_with_hes_variance_by_outputs_and_without_a_bias():
    layer = conv(64, 3, dtype=jnp.dtype("float32"), name="layer")
    params = layer.init(jax.random.key(0), jnp.zeros((1, 4, 4, 32)))["params"]
    assert set(params) == {"kernel"}
    assert params["kernel"].shape == (3, 3, 32, 64)
    np.testing.assert_allclose(np.var(params["kernel"]), 2 / (9 * 64), rtol=0.05)
    assert np.abs(params["kernel"]).max() > 3 * np.std(params["kernel"])  # a normal, not cut at two deviations


def test_the_classifier_averages_then_drops_features():
    x = jnp.ones((500, 2, 2, 40)).at[:, 0].set(3.0)  # averages to 2
    variables = {"params": {"head": {"kernel": jnp.ones((40, 1)), "bias": jnp.zeros(1)}}}
    kept = Classifier().apply(variables, x, False)
    np.testing.assert_allclose(kept, np.full((500, 1), 80.0))
    dropped = Classifier().apply(variables, x, True, rngs={"dropout": jax.random.key(0)})
    features = np.asarray(dropped)[:, 0] / (2 / 0.75)  # those that were kept were scaled up
    np.testing.assert_allclose(features, features.round(), atol=1e-4)
    np.testing.assert_allclose(features.mean() / 40, 0.75, atol=0.02)
    assert np.std(features) > 1  # drawn for each example: a binomial has 2.7


def test_logits_are_float32():
    x = jnp.ones((1, 2, 2, 3), jnp.bfloat16)
    answer, variables = Classifier().init_with_output(jax.random.key(0), x, False)
    assert answer.dtype == variables["params"]["head"]["kernel"].dtype == jnp.float32


@pytest.mark.parametrize("sides", [(8, 8), (7, 10), (1, 3)])
def test_pooling_is_flaxs_and_the_first_of_equal_pixels_gets_the_gradient(sides):
    x = nn.relu(jax.random.normal(jax.random.key(0), (3, *sides, 4)))  # many pixels are equal: 0
    towards = jax.random.normal(jax.random.key(1), (3, *sides, 4))

    def flaxs(x):
        return nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))

    def everything(function):
        y, along = jax.jvp(function, (x,), (towards,))
        return y, along, jax.vjp(function, x)[1](along)[0]

    for ours, theirs in zip(everything(max_pool), everything(flaxs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
