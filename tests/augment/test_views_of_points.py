"""Views of plain features: Gaussian jitter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.augment import views
from metapl.schema import ConfigError
from metapl.types import Batch

BATCH = Batch(jnp.ones((3, 2)), jnp.arange(3, dtype=jnp.int32), jnp.zeros((5000, 2)))


def test_jitter_distorts_the_strong_view_alone():
    seen = views.build(views.Augmentation(jitter=0.3))(BATCH, jax.random.key(0))
    np.testing.assert_array_equal(seen.labeled, BATCH.labeled)
    np.testing.assert_array_equal(seen.weak, BATCH.unlabeled)
    assert abs(float(seen.strong.std()) - 0.3) < 0.01
    assert abs(float(seen.strong.mean())) < 0.02


def test_without_jitter_both_views_are_the_example():
    seen = views.build(views.Augmentation())(BATCH, jax.random.key(0))
    np.testing.assert_array_equal(seen.strong, BATCH.unlabeled)


def test_a_mean_for_each_channel_needs_as_many_channels():
    pictures = jnp.zeros((2, 4, 4, 1), jnp.uint8)
    config = views.Augmentation(mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
    with pytest.raises(ConfigError, match="one for each of the 1 channels"):
        views.eval_view(config)(pictures)
