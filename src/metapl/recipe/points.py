"""Settings for plain features: a linear classifier that starts as scikit-learn's logistic regression.

    θ_0 = argmin_θ  mean_i CE(y_i, softmax(θ x_i)) + λ/2 ‖W‖²        λ = 1 / (C N)

Meta Pseudo Labels goes on from θ_0, teacher and student alike. The teacher's own loss on labelled examples has the same
penalty λ, so its gradient is 0 at θ_0, and soft labels of an equal teacher do not move the student, which has no
penalty: whatever changes, the unlabelled examples have changed it. The step size is divided by the mean of ‖x‖², which
bounds the curvature.

The teacher also learns from unlabelled examples, by UDA, with the weight

    w = D / (D + N)

UDA moves the border between two classes to where there are few examples. If there are more labelled examples than
features, they tell better where the border is: with w = 1, iris lost 2.6 points with 10 labels a class.

| symbol  | name                                       |
|---------|--------------------------------------------|
| θ, W    | the head, its kernel                       |
| λ       | weight_decay                               |
| C, N, D | INVERSE_PENALTY, labelled examples, width  |
"""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from metapl.algorithms.feedback import Feedback
from metapl.algorithms.mpl import MPL
from metapl.algorithms.uda import Consistency
from metapl.config import Stage
from metapl.models.assemble import Head, linear
from metapl.models.mlp import MLP
from metapl.optim import Optimizer

LINEAR = MLP(hidden=(), init_range=0.01)
INVERSE_PENALTY = 1.0  # scikit-learn's default
MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class Points:
    """What the settings depend on."""

    steps: int
    labeled_batch: int
    unlabeled_batch: int
    labeled: int  # examples
    width: int  # features of an example
    square: float  # mean of ‖x‖² + 1
    learning_rate: float


def logistic_regression(x: NDArray[Any], y: NDArray[np.int32], classes: int) -> Head:
    """Fit θ_0 with scikit-learn; every class must have an example."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=INVERSE_PENALTY, max_iter=MOST_ITERATIONS).fit(x, y)
    assert len(model.classes_) == classes
    return linear(model.coef_, model.intercept_)


def mpl(points: Points) -> Stage:
    """Meta Pseudo Labels that goes on from θ_0."""
    optimizer = Optimizer(
        learning_rate=points.learning_rate / points.square,
        schedule="cosine",
        momentum=0.9,
        nesterov=True,
        weight_decay=1 / (INVERSE_PENALTY * points.labeled),
        clip_norm=5.0,
    )
    method = MPL(
        feedback=Feedback("soft", scale="balanced"),
        labels="soft",
        consistency=Consistency(weight=points.width / (points.width + points.labeled), temperature=0.7, threshold=0.6),
        teacher=optimizer,
        student=dataclasses.replace(optimizer, weight_decay=0.0),
        student_start="teacher",
    )
    return Stage(method, points.steps, points.labeled_batch, points.unlabeled_batch)
