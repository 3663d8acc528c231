"""Self-training with aligned labels: shares that are kept, and pictures that help."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from metapl import models
from metapl.recipe import aligned as recipe
from metapl.recipe.aligned import aligned, leading, self_training


@pytest.fixture(scope="module")
def clouds():
    """Three classes in 40 dimensions, of which few tell them apart; class 1 is near class 0."""
    draw = np.random.default_rng(0)
    centres = np.zeros((3, 40))
    centres[1, 0], centres[2, 1], centres[:, 2] = 2.6, 4, (0, 1.5, 0)
    y = draw.integers(0, 3, 1200).astype(np.int32)
    x = (centres[y] + draw.normal(size=(1200, 40))).astype(np.float32)
    return (x - x.mean(0)) / x.std(0), y


def accuracy(head, x, y):
    logits, _ = models.build(head.model, 3).apply(*head.weights, x, train=False)
    return np.mean(np.argmax(logits, -1) == y)


def test_unlabelled_examples_help(clouds):
    x, y = clouds
    gains = []
    for start in range(0, 60, 12):
        few = slice(start, start + 12)
        alone = LogisticRegression().fit(x[few], y[few]).score(x[900:], y[900:])
        gains.append(accuracy(self_training(x[few], y[few], x[100:900], 3), x[900:], y[900:]) - alone)
    assert np.mean(gains) > 0.03


def test_aligned_rows_add_up_to_one_and_classes_have_their_shares():
    q = np.random.default_rng(0).dirichlet([5, 1, 1], 400)
    shares = np.array([0.2, 0.5, 0.3])
    p = aligned(q, shares)
    np.testing.assert_allclose(p.sum(-1), 1)
    np.testing.assert_allclose(p.mean(0), shares, atol=1e-3)


def test_labels_spread_along_a_chain_of_neighbours():
    """Two arcs of a circle: the far end of each arc is nearer to the other one's label than to its own."""
    angles = np.linspace(0, 2.6, 60)
    arcs = np.concatenate([np.stack([np.cos(angles), np.sin(angles), np.full(60, height)], -1) for height in (-1, 1)])
    truth = np.repeat([0, 1], 60)
    labeled = np.array([0, 119])
    rest = np.setdiff1d(np.arange(120), labeled)
    z = recipe.spread(arcs[labeled], truth[labeled], arcs[rest])
    reached = z.max(-1) > 0.5
    assert reached.mean() > 0.5
    assert np.mean(z.argmax(-1)[reached] == truth[rest][reached]) == 1
    graph = recipe.nearest((arcs / np.linalg.norm(arcs, axis=1, keepdims=True)).astype(np.float32))
    assert abs(graph - graph.T).max() < 1e-6
    assert graph.diagonal().max() == 0


def test_neighbours_help_the_head(clouds, monkeypatch):
    x, y = clouds
    scores = []
    for mixed in (recipe.MIXED, 0.0):
        monkeypatch.setattr(recipe, "MIXED", mixed)
        heads = [self_training(x[i : i + 6], y[i : i + 6], x[100:900], 3) for i in range(0, 60, 6)]
        scores.append(np.mean([accuracy(head, x[900:], y[900:]) for head in heads]))
    assert scores[0] > scores[1]


def test_other_shares_of_the_unlabelled_examples_are_noticed_and_do_less_harm(clouds, monkeypatch):
    x, y = clouds
    labeled = np.concatenate([np.flatnonzero(y[:200] == c)[:30] for c in range(3)])
    rest = np.arange(200, 900)
    rare = np.concatenate([rest[y[rest] == 0][:20], rest[y[rest] == 1][:20], rest[y[rest] == 2]])
    model = LogisticRegression(C=1e-2).fit(x[labeled], y[labeled])
    assert recipe.have_same_shares(x[labeled], y[labeled], model.predict(x[rest]))
    assert not recipe.have_same_shares(x[labeled], y[labeled], model.predict(x[rare]))
    noticed = accuracy(self_training(x[labeled], y[labeled], x[rare], 3), x[900:], y[900:])
    monkeypatch.setattr(recipe, "have_same_shares", lambda *_: True)
    assert noticed > accuracy(self_training(x[labeled], y[labeled], x[rare], 3), x[900:], y[900:]) + 0.03


def test_few_labels_say_little_about_shares():
    np.testing.assert_allclose(recipe.laplace(np.array([0] * 6 + [1])), [7 / 9, 2 / 9])
    np.testing.assert_allclose(recipe.laplace(np.arange(40) % 4), np.full(4, 0.25))


def test_shares_stay_within_a_factor_of_those_of_the_labels():
    found = recipe.bounded(np.array([0.9, 0.05, 0.05]), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, np.array([4, 1, 1]) / 6)


def test_a_class_without_labels_is_never_predicted(clouds):
    x, y = clouds
    some = np.flatnonzero(y[:60] != 1)
    head = self_training(x[some], y[some], x[100:300], 3)
    logits, _ = models.build(head.model, 3).apply(*head.weights, x, train=False)
    assert not np.any(np.argmax(logits, -1) == 1)


def test_without_unlabelled_examples_it_is_logistic_regression(clouds):
    x, y = clouds
    head = self_training(x[:30], y[:30], x[:0], 3)
    expected = LogisticRegression(C=1e-2 * 1280 / np.sum(x[:30].var(0)), tol=1e-3).fit(x[:30], y[:30])
    logits, _ = models.build(head.model, 3).apply(*head.weights, x, train=False)
    assert np.mean(np.argmax(logits, -1) == expected.predict(x)) > 0.99


def test_the_scale_and_the_place_of_features_do_not_matter(clouds):
    x, y = clouds
    predictions = []
    for features in (x, 0.01 * x + 3):
        head = self_training(features[:30], y[:30], features[100:400], 3)
        logits, _ = models.build(head.model, 3).apply(*head.weights, features, train=False)
        predictions.append(np.argmax(logits, -1))
    assert np.mean(predictions[0] == predictions[1]) > 0.99


@pytest.mark.parametrize("rows", [10, 90])
def test_directions_are_orthonormal_and_hold_most(rows, clouds):
    some = clouds[0][:rows]
    directions = leading(some)
    np.testing.assert_allclose(directions.T @ directions, np.eye(directions.shape[1]), atol=1e-4)
    np.testing.assert_allclose(some @ directions @ directions.T, some, atol=1e-3)
