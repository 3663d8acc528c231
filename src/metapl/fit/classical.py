"""The rungs that scikit-learn climbs: logistic regression on the labels, self-training, label spreading.

Each gives a linear head on the features. Logistic regression on labels alone is what a user would have done without
this program: the verdict calls it scikit-learn's answer.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from metapl.fit.climb import Check
from metapl.fit.encoded import Encoded, Labels, Values
from metapl.fit.heads import log_probabilities
from metapl.fit.rung import Logits
from metapl.fit.unit_vectors import unit_vectors
from metapl.models.assemble import Head, linear
from metapl.recipe import aligned
from metapl.recipe.aligned import MANY_CLASSES

GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of C
WORSE = 2  # values of C, one after the other, after which no larger one is tried
ENOUGH_FOR_C = 1000  # validation pictures that choose C
ROUNDS, SURE = 10, 0.75  # of self-training: most rounds, and the probability from which a label is given
LEAST_C = 1e-1  # of self-training: with a smaller C it is sure of few pictures, or of none
NEIGHBOURS = 10  # of a picture, in label spreading
MOST = 5000  # unlabelled pictures that self-training and label spreading learn from
ABSENT = -30.0  # the logit of a class that has no picture in a fold

Train = Callable[[Values, Labels], Head]  # from labelled features to a head


def logistic(x: Values, y: Labels, classes: int, c: float, weights: NDArray[np.float64] | None = None) -> Head:
    """Fit scikit-learn's logistic regression."""
    return logistic_for(x, y, classes)(c, weights)


def logistic_for(x: Values, y: Labels, classes: int) -> Callable[..., Head]:
    """Return a function that fits it for a C, and for weights of the examples.

    With a penalty on ‖w‖², w is a sum of the examples' features. If these are more than the examples, coordinates in
    the examples' span give the same head several times as fast. They are found once.
    """
    with _quietly():
        span = np.linalg.qr(x.T)[0] if len(x) < x.shape[1] else None
        near = x if span is None else x @ span

    def fit(c: float, weights: NDArray[np.float64] | None = None) -> Head:
        with _quietly():
            return as_head(_regression(c).fit(near, y, sample_weight=weights), classes, span)

    return fit


def self_training(x: Values, y: Labels, unlabeled: Values, classes: int, c: float) -> Head:
    """Fit scikit-learn's self-training: pictures that it is sure of get labels, round by round.

    Not `k_best`: the surest pictures are often all of one class, and the others drown in it. On features of CIFAR-10
    with ten labels a class (one draw) it fell from 67.3 % to 38.1 %.
    """
    some = at_most(unlabeled)
    everything = np.concatenate([x, some])
    targets = np.concatenate([y, np.full(len(some), -1, y.dtype)])
    wrapped = SelfTrainingClassifier(_regression(max(c, LEAST_C)), threshold=SURE, max_iter=ROUNDS)
    with _quietly():
        wrapped.fit(everything, targets)
    return as_head(wrapped.estimator_, classes)


def label_spreading(x: Values, y: Labels, unlabeled: Values, classes: int, c: float) -> Head:
    """Spread the labels over the nearest neighbours with scikit-learn, and fit a linear head to what they became."""
    some = at_most(unlabeled)
    everything = np.concatenate([x, some])
    targets = np.concatenate([y, np.full(len(some), -1, y.dtype)])
    neighbours = min(NEIGHBOURS, len(everything) - 1)
    with _quietly():
        spread = LabelSpreading(kernel="knn", n_neighbors=neighbours, max_iter=50).fit(
            unit_vectors(everything), targets
        )
    found = np.nan_to_num(spread.label_distributions_)
    labels = spread.classes_[found.argmax(-1)].astype(y.dtype)
    weights = np.concatenate([np.ones(len(x)), found[len(x) :].max(-1)])
    reached = weights > 0  # a picture without a path to a label has none
    # C multiplies a sum over pictures: a share of it keeps the regularisation as strong as with the labels alone.
    return logistic(everything[reached], labels[reached], classes, c * len(x) / len(everything), weights[reached])


def at_most(unlabeled: Values) -> Values:
    """MOST of the pictures, drawn at random: they come in the order of their paths, which may be that of classes."""
    rows = np.random.RandomState(0).permutation(len(unlabeled))[:MOST]
    return unlabeled if len(unlabeled) <= MOST else unlabeled[np.sort(rows)]


def aligned_training(x: Values, y: Labels, unlabeled: Values, classes: int, c: float) -> Head:
    """Train on labels that keep the classes' shares; it has a C of its own."""
    del c
    return aligned.self_training(x, y, at_most(unlabeled), classes)


# rung -> train(x, y, unlabelled, classes, C)
WITH_UNLABELED: dict[str, Callable[[Values, Labels, Values, int, float], Head]] = {
    "aligned": aligned_training,
    "self_training": self_training,
    "label_spreading": label_spreading,
}


def cross_validated(encoded: Encoded, train: Train, check: Check = lambda: None, folds: int = 0) -> Logits:
    """Log-probabilities of each labelled picture, by the head that was trained on the other folds.

    If only the first `folds` are asked for, those of the pictures in other folds are nan.
    """
    return _by_folds(encoded, lambda _, x, y: train(x, y), check, folds)


def _by_folds(encoded: Encoded, train: Callable[[int, Values, Labels], Head], check: Check, folds: int) -> Logits:
    """Do the same with the fold's number."""
    fold = encoded.fold
    predicted = np.full((len(encoded.labels), len(encoded.class_names)), np.nan, np.float32)
    for number in range(folds or encoded.folds):
        check()
        out = fold == number
        others = np.unique(encoded.labels[~out])
        classes, width = len(encoded.class_names), encoded.labeled.shape[1]
        if len(others) == 1:
            head = only(others[0], classes, width)
        else:
            head = train(number, encoded.labeled[~out], encoded.labels[~out])
        predicted[out] = log_probabilities([head], encoded.labeled[out])
    return predicted


def only(label: int, classes: int, width: int) -> Head:
    """A head that always gives this class: all that can be learnt from pictures of one class."""
    return linear(np.zeros((classes, width)), np.where(np.arange(classes) == label, 0.0, ABSENT))


class Regressions:
    """Cross-validated logistic regressions: what folds share is computed once, and nothing is fitted twice."""

    def __init__(self, encoded: Encoded, check: Check) -> None:
        self._encoded, self._check = encoded, check
        self._fits: dict[tuple[int, float], Head] = {}
        self._prepared: dict[int, Callable[..., Head]] = {}

    def of_folds(self, c: float, folds: int = 0) -> Logits:
        """Log-probabilities of each labelled picture, as `cross_validated` gives them."""
        return _by_folds(self._encoded, lambda fold, x, y: self._head(fold, x, y, c), self._check, folds)

    def _head(self, fold: int, x: Values, y: Labels, c: float) -> Head:
        if fold not in self._prepared:
            self._prepared[fold] = logistic_for(x, y, len(self._encoded.class_names))
        if (fold, c) not in self._fits:
            self._fits[fold, c] = self._prepared[fold](c)
        return self._fits[fold, c]

    def choose_c(self, grid: Sequence[float] = GRID) -> float:
        """Find the C whose heads get most of the validation pictures right; of equals, the one that is surest of them.

        A larger C takes longer, and is not tried after WORSE values that were worse than the best one so far.
        """
        if not len(self._encoded.validation_labels):
            return 1e-2
        tried: list[tuple[float, float]] = []
        for c in grid:
            tried.append(self._quality(c))
            if len(tried) - 1 - tried.index(max(tried)) == WORSE:
                break
        return grid[tried.index(max(tried))]

    def _quality(self, c: float) -> tuple[float, float]:
        """The share of the validation pictures that is right, and the mean log-probability of their labels."""
        some, labels, classes = self._encoded, self._encoded.validation_labels, len(self._encoded.class_names)
        self._check()
        folds = min(some.folds, -(-ENOUGH_FOR_C * some.folds // len(some.labels)))
        of_val = np.zeros((0, classes), np.float32)
        if len(some.val):
            of_val = log_probabilities([logistic(some.labeled, some.labels, classes, c)], some.val)
        predicted = some.validation(self.of_folds(c, folds), of_val)
        known = ~np.isnan(predicted).any(-1)
        own = np.take_along_axis(predicted, labels[:, None], -1)[known]
        return float((predicted.argmax(-1) == labels)[known].mean()), float(own.mean())


def as_head(model: LogisticRegression, classes: int, span: Values | None = None) -> Head:
    """A head for all classes, of a regression that may have seen only some of them, in coordinates of `span`."""
    rows, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if len(rows) == 1 and len(model.classes_) == 2:  # the logit of the second class; that of the first is 0
        rows, bias = np.concatenate([0 * rows, rows]), np.concatenate([0 * bias, bias])
    rows = rows if span is None else rows @ span.T
    kernel, intercept = np.zeros((classes, rows.shape[1])), np.full(classes, ABSENT)
    kernel[model.classes_], intercept[model.classes_] = rows, bias
    return linear(kernel, intercept)


@contextmanager
def _quietly() -> Iterator[None]:
    """One thread: others would change the last bits and, on a busy machine, cost more than they gain."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=MANY_CLASSES)
        warnings.simplefilter("ignore", RuntimeWarning)  # label spreading: a picture without a path to a label
        yield


def _regression(c: float) -> LogisticRegression:
    return LogisticRegression(C=c, max_iter=300, tol=1e-3)
