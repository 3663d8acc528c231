"""Crops against Pillow's resize, and boxes within their limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from metapl.augment import crop
from metapl.augment.ops import GREY
from tests.augment.sample_pictures import noise, photographs

flip_and_shift = jax.jit(crop.flip_and_shift, static_argnames=("flip", "pixels"))
random_resized = jax.jit(crop.random_resized, static_argnames=("flip", "size"))
random_box = jax.jit(crop.random_box, static_argnums=(1, 2, 3))


def resized_by_pillow(picture, size, box):
    return np.asarray(Image.fromarray(picture).resize((size, size), Image.Resampling.BILINEAR, box=box), np.int32)


def test_boxes_keep_their_limits():
    start, extent = map(np.asarray, random_box(jax.random.key(0), 5000, 60, 80))
    assert (start >= 0).all()
    assert (start + extent <= np.array([60, 80]) + 1e-3).all()
    whole = (extent < np.array([60, 80])).all(-1)  # a box that did not fit was cut
    area, ratio = extent.prod(-1)[whole] / 4800, extent[whole, 1] / extent[whole, 0]
    assert area.min() == pytest.approx(0.08, abs=0.01)
    assert ratio.min() == pytest.approx(3 / 4, abs=0.01)
    assert ratio.max() == pytest.approx(4 / 3, abs=0.01)
    assert extent.prod(-1).max() / 4800 > 0.95
    assert np.corrcoef(start[:, 0], start[:, 1])[0, 1] < 0.6  # through the size of the box alone


@pytest.mark.parametrize("size", [16, 48])
def test_random_resized_crops_are_pillows(size):
    pictures = photographs(40)[:6]
    key = jax.random.key(3)
    ours = np.asarray(random_resized(jnp.asarray(pictures), key, flip=False, size=size), np.int32)
    start, extent = map(np.asarray, random_box(jax.random.split(key)[1], 6, 40, 40))
    for mine, picture, (y, x), (height, width) in zip(ours, pictures, start, extent, strict=True):
        theirs = resized_by_pillow(picture, size, (x, y, min(x + width, 40), min(y + height, 40)))
        assert np.abs(mine - theirs).max() <= 2


def test_random_resized_crops_are_mirrored_half_of_the_time():
    ramp = np.broadcast_to(np.arange(0, 256, 8, dtype=np.uint8)[:, None], (400, 32, 32, 1))
    cropped = np.asarray(random_resized(jnp.asarray(ramp), jax.random.key(0), flip=True, size=8), np.int32)
    assert (cropped[:, 0, 0, 0] > cropped[:, 0, -1, 0]).mean() == pytest.approx(0.5, abs=0.1)


def test_the_centre_is_pillows():
    pictures = photographs(40)[:4, :, :32]
    ours = np.asarray(crop.centre(jnp.asarray(pictures), 14, 0.875), np.int32)
    for mine, picture in zip(ours, pictures, strict=True):
        assert np.abs(mine - resized_by_pillow(picture[6:34, 2:30], 14, None)).max() <= 1


def test_a_centre_of_the_right_size_is_not_resized():
    pictures = noise(0, (2, 20, 16, 3))
    np.testing.assert_array_equal(crop.centre(jnp.asarray(pictures), 14, 0.875), pictures[:, 3:17, 1:15])


def test_flip_and_shift_pads_and_crops():
    pictures = noise(0, (200, 6, 6, 1)) // 2  # no level is that of the padding
    moved = np.asarray(flip_and_shift(jnp.asarray(pictures), jax.random.key(0), flip=True, pixels=2))
    seen = []
    for picture, mine in zip(pictures, moved, strict=True):
        padded = np.pad(picture, ((2, 2), (2, 2), (0, 0)), constant_values=GREY)
        places = [(flip, y, x) for flip in (0, 1) for y in range(5) for x in range(5)]
        crops = [(padded[:, ::-1] if flip else padded)[y : y + 6, x : x + 6] for flip, y, x in places]
        found = [place for place, part in zip(places, crops, strict=True) if (part == mine).all()]
        assert found
        seen += found if len(found) == 1 else []
    flips, rows, columns = np.array(seen).T
    assert flips.mean() == pytest.approx(0.5, abs=0.1)
    for shifts in (rows, columns):
        np.testing.assert_allclose(np.bincount(shifts, minlength=5) / len(shifts), 0.2, atol=0.1)
