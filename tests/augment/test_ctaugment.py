"""CTAugment: each operation against Pillow or written out, the ratings against a direct computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from metapl.augment import ctaugment
from metapl.augment.ctaugment import OPS, CTAugment, DrawnOperations
from tests.augment.sample_pictures import photographs

LEVELS = (0.0, 0.3, 0.7, 0.99)


def enhanced(enhancement):
    return lambda picture, level: enhancement(picture).enhance(0.1 + 1.9 * level)


def partly(change):
    return lambda picture, level: Image.blend(picture, change(picture), level)


PILLOW = {
    "autocontrast": partly(ImageOps.autocontrast),
    "equalize": partly(ImageOps.equalize),
    "invert": partly(ImageOps.invert),
    "posterize": lambda picture, level: ImageOps.posterize(picture, 1 + int(8 * level)),
    "solarize": lambda picture, level: ImageOps.solarize(picture, int(256 * level)),
    "brightness": enhanced(ImageEnhance.Brightness),
    "color": enhanced(ImageEnhance.Color),
    "contrast": enhanced(ImageEnhance.Contrast),
    "sharpness": enhanced(ImageEnhance.Sharpness),
    "smooth": partly(lambda picture: ImageEnhance.Sharpness(picture).enhance(0)),
    "identity": lambda picture, level: picture,
}


@pytest.mark.parametrize("name", PILLOW)
def test_an_operation_on_colours_is_that_of_pillow(name):
    images = photographs()[: len(LEVELS)]
    op = jnp.full(len(LEVELS), OPS.index(name), jnp.int32)
    ours = np.asarray(ctaugment.layer(jnp.asarray(images), op, jnp.asarray(LEVELS), jax.random.key(0)))
    for image, level, made in zip(images, LEVELS, ours, strict=True):
        theirs = np.asarray(PILLOW[name](Image.fromarray(image), level))
        assert np.abs(made.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y"])
def test_a_warp_does_nothing_in_the_middle_and_opposite_things_at_the_ends(name):
    images = jnp.asarray(photographs()[:1])
    low, middle, high = (
        np.asarray(
            ctaugment.layer(images, jnp.asarray([OPS.index(name)]), jnp.asarray([level]), jax.random.key(0))
        ).astype(int)
        for level in (0.0, 0.5, 1.0)
    )
    np.testing.assert_array_equal(middle, images)
    assert (low != high).any()
    assert (low != middle).any()
    assert (high != middle).any()


def test_a_translation_at_the_end_is_0_3_of_the_side():
    images = jnp.asarray(photographs()[:1])
    side = images.shape[2]
    moved = ctaugment.layer(images, jnp.asarray([OPS.index("translate_x")]), jnp.asarray([1.0]), jax.random.key(0))
    pixels = int(np.floor(0.3 * side + 0.5))
    np.testing.assert_array_equal(np.asarray(moved)[:, :, : side - pixels], np.asarray(images)[:, :, pixels:])


def test_rescale_enlarges_the_middle_half():
    images = jnp.asarray(photographs()[:1])
    side = images.shape[1]
    large = ctaugment.layer(images, jnp.asarray([OPS.index("rescale")]), jnp.asarray([1.0]), jax.random.key(0))
    middle = np.asarray(images)[:, side // 4 : side // 4 + side // 2, side // 4 : side // 4 + side // 2]
    np.testing.assert_array_equal(large, middle.repeat(2, axis=1).repeat(2, axis=2))


def test_cutout_is_larger_at_higher_levels():
    images = jnp.asarray(np.full((64, 16, 16, 3), 7, np.uint8))
    op = jnp.full(64, OPS.index("cutout"), jnp.int32)

    def grey(level):
        cut = np.asarray(ctaugment.layer(images, op, jnp.full(64, level), jax.random.key(0)))
        return (cut != 7).sum(axis=(1, 2, 3)).max() // 3

    assert grey(0.0) == 1
    assert grey(0.5) == 25
    assert grey(0.99) == 64


def test_ratings_by_hand():
    config = CTAugment(decay=0.9, bins=4)
    op = np.array([[0, 1, 1, 2], [1, 1, 2, 0]])
    level = np.array([[0.1, 0.6, 0.7, 0.999], [0.55, 0.2, 1.0, 0.3]], np.float32)
    omega = np.array([0.2, 0.4, 1.0, 0.0], np.float32)
    before = np.linspace(0.5, 1, len(OPS) * 4, dtype=np.float32).reshape(len(OPS), 4)
    after = np.asarray(
        ctaugment.learn(config, jnp.asarray(before), DrawnOperations(jnp.asarray(op), jnp.asarray(level)), omega)
    )
    expected = before.copy()
    for o, i in np.ndindex(before.shape):
        here = (op == o) & (np.minimum(level * 4, 3).astype(int) == i)
        if here.any():
            kept = 0.9 ** here.sum()
            expected[o, i] = kept * before[o, i] + (1 - kept) * np.broadcast_to(omega, (2, 4))[here].mean()
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    assert (after != before).sum() == 5


def test_levels_come_only_from_bins_that_are_rated_well():
    config = CTAugment(layers=4, bins=4)
    ratings = jnp.ones((len(OPS), 4)).at[:, 0].set(0.1).at[:, 2].set(0.85)
    drawn = ctaugment.draw(config, ratings, 2000, jax.random.key(0))
    shares = np.histogram(np.asarray(drawn.level), bins=4, range=(0, 1))[0] / drawn.level.size
    parts = np.array([0, 1, 0.86 / 1.01, 1])
    np.testing.assert_allclose(shares, parts / parts.sum(), atol=0.02)
    counts = np.bincount(np.asarray(drawn.op).ravel(), minlength=len(OPS))
    assert counts.min() > 0.8 * 8000 / len(OPS)


def test_if_all_are_rated_zero_all_are_used():
    np.testing.assert_array_equal(ctaugment.chances(CTAugment(bins=3), jnp.zeros((len(OPS), 3))), 1)
