"""The data of Section 3.1."""

import numpy as np

from metapl.data.sources.two_moons import TwoMoons, load


def test_it_is_the_papers_data():
    moons = load(TwoMoons(), seed=1)
    assert moons.test.shape == (2000, 2)
    assert moons.test.dtype == np.float32
    assert np.bincount(moons.test_labels).tolist() == [1000, 1000]
    assert np.bincount(moons.labels).tolist() == [3, 3]
    assert len(moons.unlabeled) == 1994


def test_labelled_points_are_points_of_their_class_and_not_among_the_unlabelled():
    moons = load(TwoMoons(), seed=1)
    everyone = {tuple(point): label for point, label in zip(moons.test, moons.test_labels, strict=True)}
    for point, label in zip(moons.labeled, moons.labels, strict=True):
        assert everyone[tuple(point)] == label
        assert tuple(point) not in set(map(tuple, moons.unlabeled))


def test_the_seed_decides():
    one, two, other = load(TwoMoons(), 1), load(TwoMoons(), 1), load(TwoMoons(), 2)
    np.testing.assert_array_equal(one.labeled, two.labeled)
    assert not np.array_equal(one.labeled, other.labeled)


def test_noise_is_what_it_says():
    clean, noisy = load(TwoMoons(noise=0.0), 1), load(TwoMoons(noise=0.2), 1)
    upper = clean.test[clean.test_labels == 0]
    np.testing.assert_allclose(np.linalg.norm(upper, axis=1), 1.0, atol=1e-6)  # on the half circle
    spread = np.linalg.norm(noisy.test[noisy.test_labels == 0], axis=1).std()
    assert 0.15 < spread < 0.25


def test_minus_zero_is_no_noise():
    points = [load(TwoMoons(noise=noise), 0).labeled for noise in (0.0, -0.0)]
    np.testing.assert_array_equal(*points)


def test_standardizing_moves_the_points_and_nobodys_label():
    plain, standard = load(TwoMoons(), 1), load(TwoMoons(standardize=True), 1)
    np.testing.assert_allclose(standard.test.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(standard.test.std(0), 1, atol=1e-6)
    np.testing.assert_array_equal(standard.test_labels, plain.test_labels)
    np.testing.assert_allclose((plain.labeled - plain.test.mean(0)) / plain.test.std(0), standard.labeled, atol=1e-5)
