"""The contrastive methods' strong view: hue against the standard library, blur against SciPy, and its chances."""

import colorsys

import jax
import jax.numpy as jnp
import numpy as np
from scipy.ndimage import correlate1d

from metapl.augment.colors import Colors, blurred, turn_hue
from metapl.augment.strong import distort
from tests.augment.sample_pictures import photographs


def test_the_hue_turns_as_in_hsv():
    pictures, turn = photographs(4)[3:5], jnp.array([0.3, -0.45])
    turned = np.asarray(turn_hue(pictures, turn))
    for picture, by, result in zip(np.asarray(pictures), np.asarray(turn), turned, strict=True):
        for pixel, made in zip(picture.reshape(-1, 3), result.reshape(-1, 3), strict=True):
            h, s, v = colorsys.rgb_to_hsv(*(pixel / 255))
            np.testing.assert_allclose(np.multiply(colorsys.hsv_to_rgb((h + by) % 1, s, v), 255), made, atol=0.51)
    grey = jnp.full((1, 2, 2, 3), 77, jnp.uint8)
    np.testing.assert_array_equal(turn_hue(grey, jnp.array([0.4])), grey)


def test_blur_is_a_gaussian():
    pictures, sigma = photographs(40)[3:5], jnp.array([0.4, 1.5])
    for picture, s, result in zip(
        np.asarray(pictures), np.asarray(sigma), np.asarray(blurred(pictures, sigma)), strict=True
    ):
        weights = np.exp(-(np.arange(-2, 3) ** 2) / (2 * s**2))
        expected = picture.astype(float)
        for axis in (0, 1):
            expected = correlate1d(expected, weights / weights.sum(), axis=axis, mode="nearest")
        np.testing.assert_allclose(result, expected, atol=0.51)


def test_chances_and_strength():
    pictures = jnp.tile(photographs(8)[:1], (300, 1, 1, 1))
    nothing = Colors(chance=0.0, grey=0.0, blur=0.0)
    np.testing.assert_array_equal(distort(nothing, pictures, jax.random.key(0)), pictures)
    grey = np.asarray(distort(Colors(chance=0.0, grey=0.25, blur=0.0), pictures, jax.random.key(0)))
    lost = (grey == grey[..., :1]).all((1, 2, 3))
    assert 0.18 < lost.mean() < 0.33
    np.testing.assert_array_equal(grey[~lost], np.asarray(pictures)[~lost])
    changes = [
        np.abs(np.asarray(distort(Colors(s, grey=0.0, blur=0.0), pictures, jax.random.key(1)), float) - pictures).mean()
        for s in (0.25, 0.5, 1.0)
    ]
    assert changes == sorted(changes)
    assert changes[0] > 1
    inverted = np.asarray(distort(Colors(chance=0.0, grey=0.0, blur=0.0, solarize=1.0), pictures, jax.random.key(2)))
    assert inverted.max() < 128


def test_grey_pictures_are_welcome():
    pictures = photographs(8)[:4, :, :, :1]
    distorted = distort(Colors(solarize=0.5), pictures, jax.random.key(0))
    assert (distorted.shape, distorted.dtype) == (pictures.shape, jnp.uint8)
    assert not np.array_equal(distorted, pictures)
