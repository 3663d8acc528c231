"""What the numbers amount to."""

import numpy as np
import pytest

from metapl.evaluate.statistics import compared
from metapl.fit import label_next, verdict
from metapl.fit.foreign import Foreign


def pair(only_ours: int, only_theirs: int, n: int = 200):
    ours, theirs = np.ones(n, bool), np.ones(n, bool)
    theirs[:only_ours] = False
    ours[only_ours : only_ours + only_theirs] = False
    return compared(ours, theirs)


FAMILIAR, SOME, MOST = (
    Foreign(0.5, 0.45, 0.55, 0.0, False),
    Foreign(0.65, 0.6, 0.7, 0.3, True),
    Foreign(0.9, 0.8, 1, 0.8, True),
)


@pytest.mark.parametrize(
    ("better", "worse", "strange", "outcome", "recommended"),
    [
        (30, 5, FAMILIAR, "helped", "mpl"),
        (5, 30, FAMILIAR, "hurt", "supervised"),
        (6, 5, FAMILIAR, "neutral", "mpl"),
        (5, 6, FAMILIAR, "neutral", "supervised"),
        (5, 5, FAMILIAR, "neutral", "supervised"),
        (6, 5, SOME, "neutral", "supervised"),
        (30, 5, SOME, "helped", "mpl"),
        (30, 5, MOST, "helped", "supervised"),
    ],
)
def test_the_recommendation_follows_the_evidence(better, worse, strange, outcome, recommended):
    difference = pair(better, worse)
    assert verdict.judge(difference) == outcome
    assert verdict.recommend(difference, outcome, strange)[0] == recommended


def test_pictures_from_elsewhere_are_not_said_to_show_other_things():
    assert "or to come from elsewhere" in verdict.recommend(pair(5, 5), "neutral", SOME)[1]
    said = verdict._warnings(pair(5, 5), "neutral", SOME, 200)[0]
    assert "measured on pictures like the labelled ones" in said


@pytest.mark.parametrize("n", [3, 5])
def test_a_handful_of_pictures_proves_nothing(n):
    assert pair(n, 0, n).low > 0
    assert verdict.judge(pair(n, 0, n)) == verdict.judge(pair(0, n, n)) == "neutral"
    assert verdict.judge(pair(6, 0, 6)) == "helped"


def test_without_unlabelled_pictures_there_is_the_baseline():
    assert verdict.judge(None) == "none"
    assert verdict.recommend(None, "none", None)[0] == "supervised"


def test_what_to_label_next_is_unsure_and_no_two_alike():
    logits = np.array([[9.0, 0]] * 5 + [[0.0, 0]] * 6, np.float32)
    features = np.array([[1.0, 0]] * 5 + [[0, 1.0]] * 3 + [[0, -1.0]] * 3, np.float32)
    chosen = label_next.choose(logits, features, count=2)
    assert set(chosen) <= set(range(5, 11))
    assert features[chosen[0], 1] == -features[chosen[1], 1]
    few = np.concatenate([logits[:5], logits[5:8], logits[5:7]])  # half of them are sure, and far from all others
    apart = np.array([[1.0, 0]] * 5 + [[0, 1.0]] * 5, np.float32)
    assert set(label_next.choose(few, apart, count=3)) <= set(range(5, 10))
    assert len(label_next.choose(logits[:0], features[:0])) == 0
    assert len(set(label_next.choose(logits, features, count=50))) == 11
