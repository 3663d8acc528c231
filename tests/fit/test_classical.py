"""scikit-learn's rungs: heads that predict as its own classifiers do, also if a fold lacks a class."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from metapl.fit import classical
from metapl.fit.heads import keep, kept, log_probabilities
from metapl.models.assemble import Head

RANDOM = np.random.default_rng(0)
CENTRES = np.eye(3, 6) * 3


def blobs(count: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count).astype(np.int32) % 3
    return (CENTRES[labels] + RANDOM.normal(size=(count, 6))).astype(np.float32), labels


X, Y = blobs(12)
UNLABELED, TRUTH = blobs(300)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_head_predicts_as_logistic_regression_does(classes):
    rows = classes > Y
    head = classical.logistic(X[rows], Y[rows], classes, 0.1)
    theirs = LogisticRegression(C=0.1, max_iter=300, tol=1e-3).fit(X[rows], Y[rows]).predict_proba(UNLABELED)
    np.testing.assert_allclose(np.exp(log_probabilities([head], UNLABELED)), theirs, atol=1e-4)


def test_more_features_than_examples_give_the_same_head():
    wide = RANDOM.normal(size=(12, 40)).astype(np.float32)
    fit = LogisticRegression(C=0.1, max_iter=300, tol=1e-3).fit(wide, Y)
    others = RANDOM.normal(size=(50, 40)).astype(np.float32)
    ours = np.exp(log_probabilities([classical.logistic(wide, Y, 3, 0.1)], others))
    np.testing.assert_allclose(ours, fit.predict_proba(others), atol=2e-3)


def test_a_class_that_a_fold_lacks_is_never_predicted():
    p = np.exp(log_probabilities([classical.logistic(X[Y != 1], Y[Y != 1], 3, 1.0)], UNLABELED))
    assert p[:, 1].max() < 1e-6
    assert (p.argmax(-1)[TRUTH != 1] == TRUTH[TRUTH != 1]).mean() > 0.9


@pytest.mark.parametrize("method", [classical.self_training, classical.label_spreading])
def test_unlabelled_examples_are_learnt_from(method):
    few = [0, 1, 5]
    alone = log_probabilities([classical.logistic(X[few], Y[few], 3, 1.0)], UNLABELED)
    predicted = log_probabilities([method(X[few], Y[few], UNLABELED, 3, 1.0)], UNLABELED)
    assert (predicted.argmax(-1) == TRUTH).mean() > 0.88
    assert np.abs(np.exp(predicted) - np.exp(alone)).mean() > 0.05


def test_what_is_learnt_from_is_drawn_from_all_unlabelled_examples(monkeypatch):
    """Files come in the order of their paths: the first ones may all be of one class."""
    order = np.argsort(TRUTH, kind="stable")
    monkeypatch.setattr(classical, "MOST", 60)
    learnt = []
    monkeypatch.setattr(classical.aligned, "self_training", lambda x, y, some, classes: learnt.append(some))
    classical.aligned_training(X, Y, UNLABELED[order], 3, 1.0)
    rows = [int(np.flatnonzero((UNLABELED[order] == one).all(-1))[0]) for one in learnt[0]]
    assert len(set(rows)) == 60
    assert np.bincount(TRUTH[order][rows]).min() > 10
    np.testing.assert_array_equal(classical.at_most(UNLABELED[:60]), UNLABELED[:60])


def test_every_labelled_example_is_predicted_by_a_head_that_did_not_see_it():
    seen = []

    def train(x: np.ndarray, y: np.ndarray) -> Head:
        seen.append({row.tobytes() for row in x})
        return classical.logistic(x, y, 3, 1.0)

    fold = np.arange(12) // 3
    encoded = SimpleNamespace(fold=fold, folds=4, labeled=X, labels=Y, class_names=("a", "b", "c"))
    predicted = classical.cross_validated(encoded, train)
    assert np.isfinite(predicted).all()
    assert all(X[row].tobytes() not in seen[fold[row]] for row in range(12))


def test_a_fold_without_whose_pictures_one_class_is_left_is_predicted_all_the_same():
    labels = np.array([0] * 5 + [1], np.int32)
    encoded = SimpleNamespace(fold=np.arange(6), folds=6, labeled=X[:6], labels=labels, class_names=("a", "b"))
    predicted = classical.cross_validated(encoded, lambda x, y: classical.logistic(x, y, 2, 1.0))
    assert np.isfinite(predicted).all()
    assert predicted[5].argmax() == 0


def test_c_is_chosen_by_held_out_pictures_and_none_is_tried_after_two_worse_ones(monkeypatch):
    encoded = SimpleNamespace(fold=np.arange(12) // 3, folds=4, labeled=X, labels=Y, class_names=("a", "b", "c"))
    encoded.validation_labels, encoded.val, encoded.validation = Y, X[:0], lambda of_folds, of_val: of_folds
    tried: list[float] = []
    right, wrong = classical.logistic(X, Y, 3, 1.0), classical.logistic(X, (Y + 1) % 3, 3, 1.0)

    def fit(c: float) -> Head:
        tried.append(c)
        return right if c == 1e-3 else wrong

    monkeypatch.setattr(classical, "logistic_for", lambda x, y, classes: fit)
    regressions = classical.Regressions(encoded, lambda: None)
    assert regressions.choose_c() == 1e-3
    assert set(tried) == {1e-4, 1e-3, 1e-2, 1e-1}
    assert len(tried) == 4 * 4
    assert (regressions.of_folds(1e-3).argmax(-1) == Y).all()
    assert len(tried) == 4 * 4  # none is fitted twice
    monkeypatch.setattr(classical, "ENOUGH_FOR_C", 4)  # of twelve pictures in four folds: two folds are enough
    tried.clear()
    assert classical.Regressions(encoded, lambda: None).choose_c() == 1e-3
    assert len(tried) == 4 * 2


def test_cross_validated_regressions_are_those_of_each_fold_by_itself():
    labels, fold = np.array([1, 1, 0, 0, 0, 0], np.int32), np.array([0, 0, 1, 1, 2, 2])  # without fold 0: one class
    encoded = SimpleNamespace(fold=fold, folds=3, labeled=X[:6], labels=labels, class_names=("a", "b"))
    regressions = classical.Regressions(encoded, lambda: None)
    for c in (0.1, 1.0, 0.1):
        expected = classical.cross_validated(encoded, lambda x, y, c=c: classical.logistic(x, y, 2, c))
        np.testing.assert_array_equal(regressions.of_folds(c), expected)


def test_heads_are_kept_and_read_again(tmp_path):
    heads = [classical.logistic(X, Y, 3, c) for c in (0.1, 1.0)]
    keep(tmp_path, heads)
    np.testing.assert_array_equal(log_probabilities(kept(tmp_path), X), log_probabilities(heads, X))
