"""Plain features: the start is logistic regression, and only unlabelled examples change it."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from metapl import MetaPseudoLabels, models
from metapl.recipe import points
from metapl.recipe.points import Points


@pytest.fixture(scope="module")
def wine():
    x, y = load_wine(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return StandardScaler().fit_transform(x)[order].astype(np.float32), y[order].astype(np.int32)


def test_the_penalty_is_scikit_learns(wine):
    """At θ_0 the gradient of the labelled loss and the penalty cancel."""
    x, y = wine[0][:60], wine[1][:60]
    head = points.logistic_regression(x, y, 3)
    kernel = np.asarray(head.weights.params["Dense_0"]["kernel"], np.float64)
    logits = np.asarray(models.build(head.model, 3).apply(*head.weights, x, train=False)[0], np.float64)
    errors = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) - np.eye(3)[y]
    gradient = x.T @ errors / len(x)
    decay = points.mpl(Points(10, 8, 8, *x.shape, 16.0, 0.05)).method.teacher.weight_decay
    np.testing.assert_allclose(gradient, -decay * kernel, atol=2e-4)
    assert np.abs(gradient).max() > 2e-3


def test_without_unlabelled_examples_it_is_logistic_regression(wine):
    x, y = wine
    expected = LogisticRegression(max_iter=1000).fit(StandardScaler().fit_transform(x[:30]), y[:30])
    model = MetaPseudoLabels(random_state=0).fit(x[:30], y[:30])
    scaled = StandardScaler().fit(x[:30]).transform(x)
    np.testing.assert_allclose(model.predict_proba(x), expected.predict_proba(scaled), atol=2e-3)


def test_unlabelled_examples_change_it_and_not_for_the_worse(wine):
    x, y = wine
    alone = MetaPseudoLabels(random_state=0).fit(x[:9], y[:9])
    more = MetaPseudoLabels(random_state=0, steps=200).fit(x[:9], y[:9], unlabeled=x[9:120])
    assert not np.allclose(alone.predict_proba(x), more.predict_proba(x), atol=1e-2)
    assert more.score(x[120:], y[120:]) >= alone.score(x[120:], y[120:])


def test_the_more_labels_for_each_feature_the_less_unlabelled_examples_move_the_border():
    """With the weight of few labels, iris loses 3.2 points on these splits."""
    x, y = load_iris(return_X_y=True)
    gains = []
    for seed in range(5, 10):
        order = np.random.RandomState(seed).permutation(len(y))
        test, rest = order[:50], order[50:]
        labeled = np.concatenate([rest[y[rest] == label][:10] for label in range(3)])
        alone = MetaPseudoLabels(random_state=seed).fit(x[labeled], y[labeled])
        unlabeled = x[np.setdiff1d(rest, labeled)]
        more = MetaPseudoLabels(random_state=seed).fit(x[labeled], y[labeled], unlabeled=unlabeled)
        gains.append(more.score(x[test], y[test]) - alone.score(x[test], y[test]))
    assert np.mean(gains) > -0.02
