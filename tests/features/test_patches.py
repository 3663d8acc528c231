"""K-means patches: what is learnt, that it is repeatable, and that the features tell pictures apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from metapl.features import patches
from metapl.models.patches import CONTRAST, Patches, averages, near, patch_side, patches_of, triangles
from metapl.schema import ConfigError

SMALL = Patches(side=3, scales=(1, 2), centroids=24, components=16)


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return np.round(data.images[..., None] * 15.9375).astype(np.uint8), data.target


@pytest.fixture(scope="module")
def learnt(digits):
    return patches.learn(digits[0][:600], SMALL)


@pytest.fixture(scope="module")
def encode(learnt):
    return patches.frozen(learnt, SMALL)


def test_whitening_makes_the_patches_covariance_almost_the_identity():
    draw = np.random.default_rng(0)
    correlated = draw.normal(size=(20_000, 6)).astype(np.float32) @ draw.normal(size=(6, 6)).astype(np.float32)
    mean, whitening = patches._whitening(correlated * 10)
    np.testing.assert_allclose(np.cov(((correlated * 10 - mean) @ whitening).T), np.eye(6), atol=0.06)


def test_the_code_is_the_equation(learnt, digits):
    """One patch, by hand: max(0, mean distance − distance)."""
    picture, codes = digits[0][:1, :3, :3], learnt["codes"]["scale1"]  # a picture that is a single patch
    p = picture.reshape(-1).astype(np.float64)
    p = (p - p.mean()) / np.sqrt(p.var() + CONTRAST)
    z = (p - codes["patch_mean"]) @ codes["whitening"]
    distances = np.linalg.norm(z - codes["centroids"], axis=1)
    one = patches_of(jnp.asarray(picture, jnp.float32), 3)
    np.testing.assert_allclose(one.reshape(-1), p, rtol=1e-5, atol=1e-6)
    code = triangles((one - codes["patch_mean"]) @ codes["whitening"], codes["centroids"])
    np.testing.assert_allclose(code.reshape(-1), np.maximum(0, distances.mean() - distances), atol=1e-4)


def test_codes_are_averaged_over_the_cells_of_a_grid():
    codes = np.random.default_rng(0).normal(size=(2, 5, 4, 3)).astype(np.float32)
    cells = averages(jnp.asarray(codes), 2).reshape(2, 2, 2, 3)
    np.testing.assert_allclose(cells[:, 1, 0], codes[:, 2:, :2].mean((1, 2)), atol=1e-6)
    assert averages(jnp.asarray(codes), 3).shape == (2, 27)


def test_cells_that_overlap_reach_over_half_of_the_next_one():
    codes = np.random.default_rng(0).normal(size=(2, 8, 4, 3)).astype(np.float32)
    cells = averages(jnp.asarray(codes), 3, overlap=True).reshape(2, 3, 3, 3)
    np.testing.assert_allclose(cells[:, 1, 2], codes[:, 2:6, 2:4].mean((1, 2)), atol=1e-6)
    assert averages(jnp.asarray(codes[:, :1, :2]), 3, overlap=True).shape == (2, 3)  # not more cells than places


def test_the_code_near_marks_the_nearest_centroids():
    z, centroids = np.zeros((1, 2), np.float32), np.array([[0.1, 0], [3, 0], [0, 3.2], [3, 3]], np.float32)
    assert near(jnp.asarray(z), jnp.asarray(centroids)).tolist() == [[1, 0, 0, 0]]


def test_pictures_of_one_pixel_are_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="at least 2×2 pixels, and these have 1×1"):
        patches.learn(np.zeros((9, 1, 1, 3), np.uint8), SMALL)


def test_learning_again_gives_the_same_bits(learnt, digits):
    again = patches.learn(digits[0][:600], SMALL)
    jax.tree.map(np.testing.assert_array_equal, again, learnt)


def test_features_are_standardised_and_as_many_as_asked_for(encode, digits):
    features = encode(digits[0][:600])
    assert features.shape == (600, 16)
    assert np.mean(features**2) == pytest.approx(1, rel=0.1)


def test_fewer_pictures_than_features_leave_the_others_zero(digits):
    few = patches.frozen(patches.learn(digits[0][:10], SMALL), SMALL)(digits[0][:20])
    assert few.shape == (20, 16)
    assert np.isfinite(few).all()
    assert not few[:, 10:].any()


def test_a_linear_classifier_on_the_features_beats_one_on_the_same_number_of_pixels_components(digits):
    pictures, labels = digits
    settings = Patches(side=3, centroids=64, components=64)
    features = patches.frozen(patches.learn(pictures[:1000], settings), settings)(pictures)
    pixels = pictures.reshape(len(pictures), -1) / 255
    scores = [
        LogisticRegression(max_iter=2000).fit(x[:100], labels[:100]).score(x[1000:], labels[1000:])
        for x in (features, pixels)
    ]
    assert scores[0] > scores[1]


def test_a_blank_picture_has_finite_features(encode):
    assert np.isfinite(encode(np.zeros((1, 8, 8, 1), np.uint8))).all()


def test_patches_of_tiny_pictures_are_smaller():
    assert patch_side((8, 8), 6) == 4
    assert patch_side((32, 32), 6) == 6
