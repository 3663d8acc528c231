"""CutMix: the box, the labels by its area, its distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.augment.cutmix import cut
from metapl.schema import ConfigError

# Every pixel of picture i is i, so that what comes from where can be read off.
PICTURES = jnp.broadcast_to(jnp.arange(300.0)[:, None, None, None], (300, 16, 24, 3))

quick_cut = jax.jit(cut, static_argnums=(2, 3))


def test_a_box_of_one_partner_is_pasted_and_labels_are_mixed_by_its_area():
    mixed, mixture = quick_cut(jax.random.key(0), PICTURES, 1.0, 1.0)
    targets = np.asarray(mixture.mix(jnp.eye(300)))
    for i, picture in enumerate(np.asarray(mixed)):
        foreign = (picture != i).all(-1)
        assert set(np.unique(picture[foreign])) <= {float(mixture.order[i])}
        rows, columns = np.flatnonzero(foreign.any(1)), np.flatnonzero(foreign.any(0))
        if len(rows):  # a whole rectangle
            assert foreign[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
            assert targets[i, i] == pytest.approx(1 - foreign.mean(), abs=1e-6)
            assert targets[i, mixture.order[i]] == pytest.approx(foreign.mean(), abs=1e-6)
    assert len({float(part) for part in mixture.part}) > 100  # each picture has its own


def test_the_boxes_area_is_that_of_a_beta_cut_at_the_borders():
    """Before the cut the box's sides are √(1 − λ) of the picture's; λ ~ Beta(1, 1) is uniform."""
    _, mixture = quick_cut(jax.random.key(1), jnp.zeros((20000, 32, 32, 1)), 1.0)
    key = np.random.default_rng(0)
    half, middle = np.sqrt(1 - key.uniform(size=20000)) / 2, key.uniform(size=(2, 20000))
    sides = np.minimum(middle + half, 1) - np.maximum(middle - half, 0)
    expected = 1 - sides[0] * sides[1]
    assert float(mixture.part.mean()) == pytest.approx(expected.mean(), abs=0.01)
    assert float(mixture.part.std()) == pytest.approx(expected.std(), abs=0.01)


def test_the_chance_leaves_pictures_whole():
    mixed, mixture = quick_cut(jax.random.key(2), PICTURES, 1.0, 0.5)
    whole = np.asarray(mixture.part) == 1
    assert 0.4 < whole.mean() < 0.62
    np.testing.assert_array_equal(np.asarray(mixed)[whole], np.asarray(PICTURES)[whole])


def test_points_are_refused():
    with pytest.raises(ConfigError, match="cutmix cuts boxes out of pictures"):
        cut(jax.random.key(0), jnp.zeros((4, 2)), 1.0)
