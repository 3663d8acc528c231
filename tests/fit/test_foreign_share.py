"""Pictures of other things are noticed, and there is no false alarm."""

import numpy as np
import pytest

from metapl.fit import foreign_share


def test_the_same_kind_hardly_ever_raises_an_alarm():
    rng = np.random.default_rng(0)
    results = [foreign_share.compare(rng.normal(size=40), rng.normal(size=500)) for _ in range(200)]
    assert sum(result.suspected for result in results) <= 1


@pytest.mark.parametrize(("share", "noticed"), [(1.0, True), (0.5, True), (0.05, False)])
def test_foreign_pictures_are_noticed_by_their_share(share, noticed):
    rng = np.random.default_rng(1)
    strange = rng.normal(size=1000) + 6.0 * (np.arange(1000) < share * 1000)
    result = foreign_share.compare(rng.normal(size=200), strange)
    assert result.suspected == noticed
    assert result.share == pytest.approx(share, abs=0.1)


def test_few_held_out_pictures_are_no_proof():
    assert not foreign_share.compare(np.array([0.0, 1.0]), np.linspace(0.5, 1.5, 100)).suspected
    assert foreign_share.compare(np.array([0.0]), np.arange(5.0)) is None


def test_unsure_answers_and_far_features_are_strange():
    logits = np.array([[9.0, 0, 0]] * 4 + [[0.1, 0, 0]] * 4, np.float32)
    features = np.array([[1.0, 0.1], [1, 0], [1, 0.2], [1, 0.3]] + [[-1.0, 1]] * 4, np.float32)
    own, others = foreign_share.strangeness(logits, features, np.array([[1.0, 0]], np.float32), 4)
    assert own.max() < others.min()
