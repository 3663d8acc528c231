"""Every operation against Pillow, on photographs and noise, over the whole range of its value."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from metapl.augment import ops
from tests.augment.sample_pictures import batches, noise, photographs, to_pillow, with_pillow

SETTINGS = settings(max_examples=20, deadline=None, derandomize=True)
FACTORS = st.floats(0, 5.5, width=32)  # 0.1 + 1.8 × 30 / 10 is the largest
AT_A_BORDER = 0.002
"""Part of the pixels that may fall between two others, within 1/65,536: either may be fetched."""

compiled_lookup, compiled_blend, compiled_warp = map(jax.jit, (ops.lookup, ops.blend, ops.warp))


def repeated(value, pictures):
    return jnp.full((len(pictures),), value, jnp.float32)


def assert_close(ours, theirs, levels):
    off = np.abs(np.asarray(ours).astype(np.int32) - theirs).max()
    assert off <= levels, f"{off} grey levels off"


@pytest.mark.parametrize(
    ("table", "pillow", "levels"),
    [
        (lambda counts: ops.invert(), ImageOps.invert, 0),
        (ops.equalize, ImageOps.equalize, 0),
        (ops.autocontrast, ImageOps.autocontrast, 1),
    ],
    ids=["invert", "equalize", "autocontrast"],
)
def test_lookups_without_a_value_are_pillows(table, pillow, levels):
    compiled = jax.jit(lambda pictures: ops.lookup(pictures, table(ops.histograms(pictures))))

    @SETTINGS
    @given(batches())
    @example(np.zeros((1, 32, 32, 3), np.uint8))
    @example(np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1))
    def check(pictures):
        assert_close(compiled(pictures), with_pillow(pictures, pillow), levels)

    check()


@SETTINGS
@given(batches(), st.integers(1, 8))
def test_posterize_is_pillows(pictures, bits):
    ours = compiled_lookup(pictures, ops.posterize(repeated(bits, pictures)))
    assert_close(ours, with_pillow(pictures, lambda picture: ImageOps.posterize(picture, bits)), 0)


@SETTINGS
@given(batches(), st.integers(0, 256))
def test_solarize_is_pillows(pictures, threshold):
    ours = compiled_lookup(pictures, ops.solarize(repeated(threshold, pictures)))
    assert_close(ours, with_pillow(pictures, lambda picture: ImageOps.solarize(picture, threshold)), 0)


@pytest.mark.parametrize(
    ("degenerate", "pillow"),
    [
        (lambda pictures: ops.black(), ImageEnhance.Brightness),
        (ops.grey, ImageEnhance.Color),
        (ops.mean_grey, ImageEnhance.Contrast),
        (ops.smooth, ImageEnhance.Sharpness),
    ],
    ids=["brightness", "color", "contrast", "sharpness"],
)
def test_enhancements_are_pillows(degenerate, pillow):
    compiled = jax.jit(lambda pictures, factor: ops.blend(degenerate(pictures), pictures, factor))

    @SETTINGS
    @given(batches(), FACTORS)
    @example(photographs(), 0.0)
    @example(photographs(), 1.0)
    def check(pictures, factor):
        theirs = with_pillow(pictures, lambda picture: pillow(picture).enhance(factor))
        levels = 0 if factor in (0, 1) else 1
        assert_close(compiled(pictures, repeated(factor, pictures)), theirs, levels)

    check()


@pytest.mark.parametrize("pictures", [photographs(), noise(0, (8, 16, 24, 3)), noise(0, (8, 9, 7, 1))])
def test_degenerate_images_are_pillows(pictures):
    luminance = np.stack([np.asarray(to_pillow(picture).convert("L"), np.int32)[..., None] for picture in pictures])
    assert_close(ops.grey(jnp.asarray(pictures)), luminance, 0)
    assert_close(ops.mean_grey(jnp.asarray(pictures)), np.floor(luminance.mean((1, 2, 3), keepdims=True) + 0.5), 0)
    blurred = with_pillow(pictures, lambda picture: picture.filter(ImageFilter.SMOOTH))
    assert_close(ops.smooth(jnp.asarray(pictures)), blurred, 0)


@SETTINGS
@given(batches(), st.floats(0, 0.5, width=32))
def test_sample_pairing_is_pillows_blend(pictures, part):
    partners = np.roll(pictures, 1, axis=0)
    ours = compiled_blend(partners, pictures, repeated(1 - part, pictures))
    mix = functools.partial(Image.blend, alpha=part)
    theirs = [mix(to_pillow(one), to_pillow(other)) for one, other in zip(pictures, partners, strict=True)]
    assert_close(ours, np.stack([np.asarray(t, np.int32) for t in theirs]).reshape(pictures.shape), 1)


def pillow_affine(pictures, coefficients):
    fill = (ops.GREY,) * pictures.shape[-1]
    height, width = pictures.shape[1:3]
    return with_pillow(
        pictures,
        lambda picture: picture.transform((width, height), Image.Transform.AFFINE, coefficients, fillcolor=fill),
    )


@pytest.mark.parametrize(
    ("matrices", "coefficients", "largest"),
    [
        (ops.shear_x, lambda v: (1, v, 0, 0, 1, 0), 0.9),
        (ops.shear_y, lambda v: (1, 0, 0, v, 1, 0), 0.9),
        (lambda v: ops.translate(v, 0 * v), lambda v: (1, 0, v, 0, 1, 0), 14.0),
        (lambda v: ops.translate(0 * v, v), lambda v: (1, 0, 0, 0, 1, v), 14.0),
    ],
    ids=["shear_x", "shear_y", "translate_x", "translate_y"],
)
def test_shears_and_translations_are_pillows(matrices, coefficients, largest):
    compiled = jax.jit(lambda pictures, value: ops.warp(pictures, matrices(value)))

    @SETTINGS
    @given(batches(), st.integers(-1000, 1000))
    def check(pictures, thousandths):
        value = float(np.float32(largest * thousandths / 1000))
        ours = np.asarray(compiled(pictures, repeated(value, pictures)))
        theirs = pillow_affine(pictures, coefficients(value))
        assert (ours != theirs).any(-1).mean() <= AT_A_BORDER

    check()


@SETTINGS
@given(batches(), st.integers(-899, 899))
@example(photographs(), 0)
def test_rotate_is_pillows(pictures, tenths):
    degrees = tenths / 10
    matrices = ops.rotate(repeated(degrees, pictures), *pictures.shape[1:3])
    ours = np.asarray(compiled_warp(pictures, matrices))
    fill = (ops.GREY,) * pictures.shape[-1]
    theirs = with_pillow(pictures, lambda picture: picture.rotate(degrees, fillcolor=fill))
    assert (ours != theirs).any(-1).mean() <= AT_A_BORDER


def test_the_identity_of_each_family_changes_nothing():
    pictures = noise(0, (4, 32, 32, 3))
    ones, zeros = jnp.ones(4), jnp.zeros(4)
    np.testing.assert_array_equal(compiled_lookup(pictures, ops.identity_table()), pictures)
    np.testing.assert_array_equal(compiled_blend(np.roll(pictures, 1, axis=0), pictures, ones), pictures)
    np.testing.assert_array_equal(compiled_warp(pictures, ops.translate(zeros, zeros)), pictures)


def test_each_image_has_its_own_value():
    pictures = np.repeat(photographs()[:1], 4, axis=0)
    bits, factor, slope = jnp.asarray([2.0, 4, 6, 8]), jnp.asarray([0.2, 1, 1.7, 3]), jnp.asarray([-0.2, 0, 0.4, 0.1])

    def all_ways(bits, factor, slope):
        tables, matrices = ops.posterize(bits), ops.shear_x(slope)
        return (
            compiled_lookup(pictures, tables),
            compiled_blend(0 * pictures, pictures, factor),
            compiled_warp(pictures, matrices),
        )

    mixed = all_ways(bits, factor, slope)
    for row in range(4):
        same = all_ways(*(jnp.full_like(values, values[row]) for values in (bits, factor, slope)))
        for ours, expected in zip(mixed, same, strict=True):
            np.testing.assert_array_equal(ours[row], expected[row])


def test_flip_and_shift_is_numpys():
    pictures = noise(1, (6, 8, 10, 3))
    flipped = jnp.asarray([False, True] * 3)
    right, down = jnp.asarray([0.0, 0, 3, 3, -2, -2]), jnp.asarray([0.0, 0, -1, -1, 2, 2])
    ours = ops.warp(jnp.asarray(pictures), ops.flip_and_shift(flipped, right, down, 10))
    for picture, flip, x, y, mine in zip(pictures, flipped, right, down, ours, strict=True):
        padded = np.pad(picture, ((3, 3), (3, 3), (0, 0)), constant_values=ops.GREY)
        padded = padded[:, ::-1] if flip else padded
        # A mirrored picture is shifted the other way round: the shift is in the stored picture.
        left = 3 + int(x) * (-1 if flip else 1)
        np.testing.assert_array_equal(mine, padded[3 + int(y) : 11 + int(y), left : left + 10])


def test_histograms_count_every_pixel():
    pictures = noise(2, (3, 12, 9, 3))
    counts = np.asarray(ops.histograms(jnp.asarray(pictures)))
    for image in range(3):
        for channel in range(3):
            expected = np.bincount(pictures[image, :, :, channel].ravel(), minlength=256)
            np.testing.assert_array_equal(counts[image, channel], expected)


@SETTINGS
@given(st.integers(0, 2**31), st.integers(1, 12))
def test_cutout_greys_a_square_and_nothing_else(seed, size):
    pictures = np.zeros((16, 10, 14, 3), np.uint8)
    cut = np.asarray(ops.cutout(jnp.asarray(pictures), size, jax.random.key(seed)))
    assert set(np.unique(cut)) <= {0, ops.GREY}
    for picture in cut:
        rows, columns = (np.flatnonzero((picture == ops.GREY).any(axis=(axis, 2))) for axis in (1, 0))
        assert 1 <= len(rows) <= size
        assert 1 <= len(columns) <= size
        assert (picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] == ops.GREY).all()
        assert (picture == ops.GREY).sum() == 3 * len(rows) * len(columns)
        # A side is cut off at the border only.
        assert len(rows) == size or 0 in rows or 9 in rows
        assert len(columns) == size or 0 in columns or 13 in columns


def test_cutout_reaches_everywhere():
    cut = ops.cutout(jnp.zeros((2000, 8, 8, 1), jnp.uint8), 2, jax.random.key(0))
    share = np.asarray(cut == ops.GREY).mean(axis=0)[..., 0]
    np.testing.assert_allclose(share[:-1, :-1], 4 / 64, atol=0.03)
    assert share.min() > 0
