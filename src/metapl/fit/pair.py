"""The rung that puts the pretrained and the finetuned network side by side: one head gets the features of both.

    x = [x_0, r x_1]                    x_0: the frozen encoder's features;  x_1: those of `finetuned`
    r = |x_0| / |x_1|                   |x|: the root of the mean of ‖x − mean x‖² over unlabelled pictures
    the head is aligned self-training on x (recipe/aligned.py)

Where finetuning has gained, the head follows x_1; where the pretrained network knew better, x_0 is still there. It was
better than `finetuned`, or as good, on each development draw, and worse on one test draw (docs/features.md). A
prediction takes twice as long.
"""

import numpy as np

from metapl.evaluate import predictor
from metapl.features.encoders import encoder_of
from metapl.fit import classical, finetuned, kept_features
from metapl.fit import rung as rungs
from metapl.fit.climb import Check, Climb
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.encoded import Labels, Values
from metapl.fit.finetuned import CHECK, FINETUNED, START
from metapl.fit.kept_features import RoleFeatures
from metapl.fit.rung import Predictions
from metapl.models.assemble import Head, side_by_side

NAME = "pair"


def is_promising(climb: Climb) -> bool:
    """Whether there is a finetuned network, and unlabelled pictures to train a head with."""
    return rungs.finished(climb.out, FINETUNED) and finetuned.learns_unlabeled(climb)


def train_rung(climb: Climb, check: Check) -> Predictions:
    """Train the head, write the rung, and predict the pictures that judge it; `check` may raise Stopped."""
    some, frozen = climb.features, kept_features.frozen(climb.features)

    def train(labeled: Values, labels: Labels, unlabeled: Values) -> Head:
        check()
        return classical.aligned_training(labeled, labels, unlabeled, len(some.class_names), 0.0)

    seen = finetuned.features_after_first_run(climb, finetuned.mean_of(climb, START, CHECK))
    first, untested = finetuned.of_judged(climb, seen), frozen._replace(test=frozen.test[:0])
    validation = finetuned.validated(some, joined(untested, first, ratio(frozen, first)), train)[1]

    model = predictor.load(climb.out / FINETUNED)
    last = finetuned.features_of_rung(climb, model)
    r = ratio(frozen, last)
    seen = joined(frozen, last, r)
    head = train(seen.labeled, some.labels, seen.unlabeled)
    predictions = finetuned.predicted(some, head, seen, validation)
    encoder = side_by_side(encoder_of(some.prepared.encode), finetuned.network_parts(model)[0], r)
    write_composed(climb.out, NAME, some, [head], predictions.test, LINEAR_STAGES, climb.request.seed, encoder)
    return predictions


def ratio(frozen: RoleFeatures, own: RoleFeatures) -> float:
    """r: how much the second network's features are multiplied by, so that both have the same spread."""
    return spread(frozen.unlabeled) / max(spread(own.unlabeled), 1e-12)


def spread(x: Values) -> float:
    """|x|."""
    return float(np.sqrt(np.square(x - x.mean(0), dtype=np.float64).sum(-1).mean()))


def joined(frozen: RoleFeatures, own: RoleFeatures, r: float) -> RoleFeatures:
    """x of each role."""
    return RoleFeatures(
        *(np.concatenate([left, np.float32(r) * right], -1) for left, right in zip(frozen, own, strict=True))
    )
