"""Self-training with aligned labels: a linear head on features that learns from its own labels for all pictures.

    x'  = V x                                           V: the leading principal directions of all features, which
                                                        are centred and scaled to a mean ‖x‖² of 1,280
    Z   = labels spread over the nearest neighbours     [unlabelled examples, classes]
    θ   = logistic regression on the labelled examples
    repeat:
      Q = softmax(θ x'_u)                               [unlabelled examples, classes]
      P = Q^(1 − μ) Z^μ, columns and rows scaled in turn, so that the classes have the shares π and every row adds up
          to 1
      θ = logistic regression on y_l, with weight 2, and on argmax P_i, with weight (max P_i)²
    the head is θ V

Without alignment, self-training gives too many pictures to the classes that are easy. π are the classes' shares as the
labelled examples tell them, a, if the unlabelled ones have the same shares:

    a_c = (n_c + 1) / Σ_k (n_k + 1)                     n_c: labelled examples of class c (Laplace's rule: seven labels
                                                        say little about shares, a hundred say much)

If not, that would teach wrong labels. So the classes that θ predicts for unlabelled examples are compared with those
that it predicts for labelled ones, by cross-validation. If their counts differ by more than chance explains (χ²,
p < CHANCE), π follows the predictions:

    π_c = the mean of Q_ic over i, but at least a_c / MOST and at most a_c MOST; scaled to add up to 1

Neighbours show what a linear head cannot: which of two clusters an example between them is connected to. Labels
spread over the graph of the nearest neighbours (Zhou et al., 2003) as in

    Z ← α D^(-½) W D^(-½) Z + (1 − α) Y                 Y: the labels, 0 for unlabelled examples
    W = w + wᵀ                                          D: the sums of its rows
    w_ij = max(0, cos(x'_i, x'_j))³                     if j is one of the NEIGHBOURS nearest to i, else 0

scikit-learn's SelfTrainingClassifier has neither alignment nor weights, and its LabelSpreading no weighted neighbours.

| symbol | name                      |
|--------|---------------------------|
| V      | directions                |
| Z, μ   | spread, MIXED             |
| α      | PASSED_ON                 |
| a      | shares                    |
| π      | wanted                    |
| P      | aligned                   |
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from metapl.models.assemble import Head, linear

DIRECTIONS = 512  # at most
ROUNDS, SCALINGS = 5, 20
FIRST_C = 1e-2
SQUARE = (
    1280.0  # mean of ‖x‖² after scaling, as EfficientNet-Lite's features have it: C means the same for all features
)
STRENGTH = 10.0  # C is this, divided by the number of examples
LABELED_WEIGHT = 2.0
NEIGHBOURS, PASSED_ON, SPREADINGS = 10, 0.9, 20
MIXED = 0.4  # what the neighbours count for in a label; the head counts for the rest
LEAST = 1e-6  # of Z: the neighbours rule out no class
AT_ONCE = 1024  # examples whose neighbours are looked for at a time
FOLDS, CHANCE = 5, 0.01
MOST = 2.0  # factor by which π may differ from a
MANY_CLASSES = "The number of unique classes is greater than 50%"  # how scikit-learn's warning about it begins
ABSENT = -30.0  # the logit of a class without labelled examples

Values = NDArray[np.floating[Any]]
Labels = NDArray[np.int32]
Numbers = NDArray[np.integer[Any]]  # of classes


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]  # several threads add up in any order: other bits
def self_training(x: Values, y: Labels, unlabeled: Values, classes: int) -> Head:
    """Train a linear head on labelled features x [N, D], y [N], and unlabelled ones [U, D]."""
    present, own = np.unique(y, return_inverse=True)
    everything = np.concatenate([x, unlabeled]).astype(np.float32)
    mean = everything.mean(0)
    everything -= mean
    scale = np.sqrt(SQUARE / max(float(np.mean(np.sum(everything**2, -1))), 1e-12))
    everything *= scale
    directions = leading(everything)
    near, far = everything[: len(x)] @ directions, everything[len(x) :] @ directions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=MANY_CLASSES)
        model = _regression(FIRST_C).fit(near, own)
        if len(unlabeled):
            _go_on(model, near, own, far)
    kernel, intercept = np.zeros((classes, x.shape[1])), np.full(classes, ABSENT)
    rows, bias = _of_all_classes(model)
    kernel[present] = scale * rows @ directions.T
    intercept[present] = bias - kernel[present] @ mean
    return linear(kernel, intercept)


def _go_on(model: LogisticRegression, x: Values, y: Numbers, unlabeled: Values) -> None:
    """Train θ, round by round, from where it is."""
    shares = laplace(y)
    same = have_same_shares(x, y, model.predict(unlabeled))
    of_neighbours = spread(x, y, unlabeled) ** MIXED
    everything = np.concatenate([x, unlabeled])
    model.set_params(C=STRENGTH / len(everything), warm_start=True)
    for _ in range(ROUNDS):
        q = probabilities(model, unlabeled)
        p = aligned(q ** (1 - MIXED) * of_neighbours, shares if same else bounded(q.mean(0), shares))
        weights = np.concatenate([np.full(len(x), LABELED_WEIGHT), p.max(-1) ** 2])
        model.fit(everything, np.concatenate([y, p.argmax(-1)]), sample_weight=weights)


def spread(x: Values, y: Numbers, unlabeled: Values) -> Values:
    """Z: [U, C]."""
    everything = np.concatenate([x, unlabeled]).astype(np.float32)
    graph = nearest(everything / np.maximum(np.linalg.norm(everything, axis=-1, keepdims=True), 1e-12))
    given = np.zeros((len(everything), int(y.max()) + 1), np.float32)
    given[np.arange(len(y)), y] = 1
    z = given
    for _ in range(SPREADINGS):
        z = PASSED_ON * (graph @ z) + (1 - PASSED_ON) * given
    z = z[len(x) :]
    return np.asarray(z / np.maximum(z.sum(-1, keepdims=True), 1e-12) + LEAST)


def nearest(x: Values) -> sparse.csr_array:
    """D^(-½) W D^(-½) for vectors of length 1: [N, N]."""
    count = min(NEIGHBOURS, len(x) - 1)
    columns, cosines = [], []
    for start in range(0, len(x), AT_ONCE):
        some = x[start : start + AT_ONCE] @ x.T
        some[np.arange(len(some)), np.arange(start, start + len(some))] = -2  # nobody is a neighbour of itself
        columns.append(np.argpartition(-some, count - 1, axis=-1)[:, :count])
        cosines.append(np.take_along_axis(some, columns[-1], -1))
    ends = np.arange(0, len(x) * count + 1, count)
    values = np.maximum(np.concatenate(cosines), 0) ** 3
    w = sparse.csr_array((values.ravel(), np.concatenate(columns).ravel(), ends), shape=(len(x), len(x)))
    w = w + w.T
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(w.sum(1), 1e-12)))
    return sparse.csr_array(scale @ w @ scale)


def have_same_shares(x: Values, y: Numbers, predicted: Numbers) -> bool:
    """Whether predictions for others have the classes in the same shares as cross-validated ones, but for chance."""
    folds = min(FOLDS, int(np.bincount(y).min()))
    if folds < 2:
        return True  # nobody can tell
    cutter = StratifiedKFold(folds, shuffle=True, random_state=0)
    own = cross_val_predict(_regression(FIRST_C), x, y, cv=cutter)
    counts = np.stack([np.bincount(some, minlength=y.max() + 1) for some in (own, predicted)])
    return bool(stats.chi2_contingency(counts[:, counts.sum(0) > 0]).pvalue >= CHANCE)


def laplace(y: Numbers) -> Values:
    """a: the classes' shares by Laplace's rule."""
    counts = np.bincount(y) + 1
    return np.asarray(counts / counts.sum())


def bounded(wanted: Values, shares: Values) -> Values:
    """π: the wanted shares, within a factor of the labelled ones."""
    kept = np.clip(wanted, shares / MOST, shares * MOST)
    return np.asarray(kept / kept.sum())


def leading(features: Values) -> Values:
    """V: orthonormal directions of the largest variance [D, at most 512] of centred features."""
    if len(features) < features.shape[1]:
        return np.asarray(np.linalg.svd(features, full_matrices=False)[2][:DIRECTIONS].T)
    return np.asarray(np.linalg.eigh(features.T @ features)[1][:, ::-1][:, :DIRECTIONS])


def aligned(q: Values, shares: Values) -> Values:
    """P: rows of q [U, C], scaled so that the classes have these shares."""
    p = np.maximum(q, 1e-12)
    for _ in range(SCALINGS):
        p = p * (shares * len(p) / p.sum(0))
        p = p / p.sum(-1, keepdims=True)
    return np.asarray(p)


def probabilities(model: LogisticRegression, features: Values) -> Values:
    """Q: [U, C]."""
    rows, bias = _of_all_classes(model)
    return np.asarray(softmax(features @ rows.T + bias, axis=-1))


def _of_all_classes(model: LogisticRegression) -> tuple[Values, Values]:
    """Coefficients with one row for each class; of two classes, scikit-learn has the second one's only."""
    rows, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if len(rows) > 1:
        return rows, bias
    return np.concatenate([0 * rows, rows]), np.concatenate([0 * bias, bias])


def _regression(c: float) -> LogisticRegression:
    return LogisticRegression(C=c, max_iter=300, tol=1e-3)
