"""K-means patches: what is learnt, that it is repeatable, and that the features tell pictures apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from metapl.features import patches
from metapl.features.patches import Patches, PatchSettings

SMALL = PatchSettings(patch=3, centroids=24, components=16)


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return np.round(data.images[..., None] * 15.9375).astype(np.uint8), data.target


@pytest.fixture(scope="module")
def learnt(digits) -> Patches:
    return patches.learn(digits[0][:600], SMALL)


def test_whitening_makes_the_patches_covariance_almost_the_identity():
    draw = np.random.default_rng(0)
    correlated = draw.normal(size=(20_000, 6)).astype(np.float32) @ draw.normal(size=(6, 6)).astype(np.float32)
    mean, whitening = patches._whitening(correlated * 10)
    np.testing.assert_allclose(np.cov(((correlated * 10 - mean) @ whitening).T), np.eye(6), atol=0.06)


def test_the_code_is_the_equation(learnt, digits):
    """One patch, by hand: max(0, mean distance − distance)."""
    picture = digits[0][:1, :3, :3]  # a picture that is a single patch
    p = picture.reshape(-1).astype(np.float64)
    p = (p - p.mean()) / np.sqrt(p.var() + patches.CONTRAST)
    z = (p - np.asarray(learnt.patch_mean)) @ np.asarray(learnt.whitening)
    distances = np.linalg.norm(z - np.asarray(learnt.centroids), axis=1)
    code = np.maximum(0, distances.mean() - distances)
    one = patches._patches(jnp.asarray(picture), 3)
    np.testing.assert_allclose(one.reshape(-1), p, rtol=1e-5, atol=1e-6)
    pooled = patches.pool(learnt, jnp.asarray(np.tile(picture, (1, 2, 2, 1))), 3)
    assert pooled.shape == (1, 4 * 24)
    corner = patches.pool(learnt, jnp.asarray(np.tile(picture, (1, 2, 2, 1))[:, :4, :4]), 3)
    np.testing.assert_allclose(corner[0, :24], code, atol=1e-4)


def test_learning_again_gives_the_same_bits(learnt, digits):
    again = patches.learn(digits[0][:600], SMALL)
    jax.tree.map(np.testing.assert_array_equal, again, learnt)


def test_features_are_standardised_and_as_many_as_asked_for(learnt, digits):
    features = np.asarray(patches.encode(learnt, jnp.asarray(digits[0][:600])))
    assert features.shape == (600, 16)
    assert np.mean(features**2) == pytest.approx(1, rel=0.1)


def test_a_linear_classifier_on_the_features_beats_one_on_the_same_number_of_pixels_components(digits):
    pictures, labels = digits
    learnt = patches.learn(pictures[:1000], PatchSettings(patch=3, centroids=64, components=64))
    features = np.asarray(patches.encode(learnt, jnp.asarray(pictures)))
    pixels = pictures.reshape(len(pictures), -1) / 255
    scores = [
        LogisticRegression(max_iter=2000).fit(x[:100], labels[:100]).score(x[1000:], labels[1000:])
        for x in (features, pixels)
    ]
    assert scores[0] > scores[1]


def test_a_blank_picture_has_finite_features(learnt):
    assert np.isfinite(patches.encode(learnt, jnp.zeros((1, 8, 8, 1), jnp.uint8))).all()


def test_patches_of_tiny_pictures_are_smaller():
    assert patches.patch_side((8, 8, 1), PatchSettings()) == 4
    assert patches.patch_side((32, 32, 3), PatchSettings()) == 6
