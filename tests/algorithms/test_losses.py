"""Label smoothing against its definition, in the losses and in the methods that have it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, models
from metapl.algorithms import losses, mpl, supervised, uda
from metapl.models.mlp import MLP
from metapl.schema import ConfigError, validate
from metapl.types import Views

LOGITS = jnp.array([[2.0, -1.0, 0.5], [0.0, 0.3, -0.7]])
LABELS = jnp.array([2, 0])


def by_hand(labels, logits, smoothing):
    """−Σ_c ((1 − α) [c = y] + α / C) log p_c, example by example."""
    log_p = np.asarray(logits) - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.mean([-(1 - smoothing) * row[y] - smoothing * row.mean() for y, row in zip(labels, log_p, strict=True)])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_labels_and_distributions_are_smoothed_alike(smoothing):
    expected = by_hand(LABELS, LOGITS, smoothing)
    np.testing.assert_allclose(losses.cross_entropy(LABELS, LOGITS, smoothing), expected, rtol=1e-6)
    np.testing.assert_allclose(losses.cross_entropy(jax.nn.one_hot(LABELS, 3), LOGITS, smoothing), expected, rtol=1e-6)
    costs = losses.label_costs(LOGITS, smoothing)
    np.testing.assert_allclose(costs[jnp.arange(2), LABELS].mean(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "metric"), [(supervised.Supervised, "loss"), (uda.UDA, "loss"), (mpl.MPL, "teacher_loss")]
)
def test_methods_smooth_the_true_labels(kind, metric):
    network = models.build(MLP(init_range=2.0), classes=3)
    x = jax.random.normal(jax.random.key(5), (6, 2))
    views = Views(x[:2], LABELS, x, x)
    algorithm = algorithms.build(kind(label_smoothing=0.4), network, 10)
    state = algorithm.init(jax.random.key(0), views, None)
    _, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(1))
    teacher = state.teacher if kind is mpl.MPL else state
    logits, _ = network.apply(teacher.params, {}, views.labeled, train=False)
    np.testing.assert_allclose(metrics[metric], by_hand(LABELS, logits, 0.4), rtol=1e-5)


def test_the_sharpest_temperature_gives_numbers_and_a_sharper_one_is_refused():
    loss = losses.cross_entropy(losses.sharpen(1e4 * LOGITS, 1e-6), LOGITS)
    np.testing.assert_allclose(loss, losses.cross_entropy(LOGITS.argmax(-1), LOGITS), rtol=1e-6)
    with pytest.raises(ConfigError, match=r"temperature takes a number of at least 1e-06"):
        validate(uda.Consistency(temperature=1e-30))
