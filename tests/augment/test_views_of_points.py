"""Views of plain features: Gaussian jitter."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl.augment import views
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
