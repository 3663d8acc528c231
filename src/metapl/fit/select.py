"""Which rung to use: by pictures that neither trained it nor measure it.

The rung that gets most of the validation pictures right is the best one, but with few pictures chance decides between
rungs that are nearly as good. So all rungs that are worse by less than one standard error of the paired difference
count as good, too, and of these the one with the highest mean log p(label), after calibration, is taken.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.evaluate import temperature
from metapl.evaluate.measures import log_softmax
from metapl.fit.rung import Logits, Rung

Labels = NDArray[np.int32]


class Validated(NamedTuple):
    """How a rung does on the validation pictures."""

    accuracy: float
    nll: float  # after calibration
    temperature: float
    pictures: int


def validate(rung: Rung, labels: Labels) -> Validated | None:
    """Calibrate and score a rung; None if it predicted no validation picture."""
    known = predicted(rung)
    if not known.any():
        return None
    logits, own = rung.predictions.validation[known], labels[known]
    t = temperature.fit(logits, own)
    return Validated(float((logits.argmax(-1) == own).mean()), -float(_log_p(logits / np.float32(t), own).mean()), t,
                     int(known.sum()))  # fmt: skip


def best(rungs: Sequence[Rung], labels: Labels) -> Rung:
    """The rung to use; the first one if there are no validation pictures."""
    scored = [rung for rung in rungs if validate(rung, labels) is not None]
    if not scored:
        return rungs[0]
    leader = scored[0]
    for rung in scored[1:]:
        if _difference(rung, leader, labels)[0] > 0:
            leader = rung
    good = [rung for rung in scored if _is_as_good(rung, leader, labels)]
    return min(good, key=lambda rung: _nll_beside(rung, good, labels))


def _is_as_good(rung: Rung, leader: Rung, labels: Labels) -> bool:
    mean, error = _difference(leader, rung, labels)
    return mean <= error


def _difference(one: Rung, other: Rung, labels: Labels) -> tuple[float, float]:
    """Mean and standard error of one's accuracy minus the other's, on the pictures that both predicted."""
    both = predicted(one) & predicted(other)
    right = [rung.predictions.validation[both].argmax(-1) == labels[both] for rung in (one, other)]
    ahead, behind, n = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum()), max(len(right[0]), 1)
    variance = ahead + behind + 1 - (ahead - behind) ** 2 / n  # one picture more: a single one proves nothing
    return (ahead - behind) / n, float(variance**0.5) / n


def _nll_beside(rung: Rung, others: Sequence[Rung], labels: Labels) -> float:
    """Mean −log p on the pictures that all of them predicted, so that it can be compared."""
    common = np.logical_and.reduce([predicted(other) for other in others])
    logits = rung.predictions.validation[common]
    return -float(_log_p(logits / np.float32(temperature.fit(logits, labels[common])), labels[common]).mean())


def predicted(rung: Rung) -> NDArray[np.bool_]:
    """Which validation pictures a rung predicted."""
    return np.asarray(~np.isnan(rung.predictions.validation).any(-1))


def _log_p(logits: Logits, labels: Labels) -> NDArray[np.float64]:
    return np.take_along_axis(log_softmax(logits), labels[:, None], -1)[:, 0].astype(np.float64)


def together(rungs: Sequence[Rung], labels: Labels) -> list[Rung]:
    """Rungs whose mean probabilities make the labels most probable: the best one, then one by one (Caruana, 2004)."""
    candidates = [rung for rung in rungs if predicted(rung).all()]
    chosen: list[Rung] = []
    score = np.inf
    while candidates:
        scores = [_calibrated_nll(mean_of([*_logits(chosen), *_logits([rung])]), labels) for rung in candidates]
        at = int(np.argmin(scores))
        if scores[at] >= score:
            break
        score = scores[at]
        chosen.append(candidates.pop(at))
    return chosen


def mean_of(logits: Sequence[Logits]) -> Logits:
    """The logarithm of the mean of probabilities that are given by their logarithms."""
    return np.asarray(np.logaddexp.reduce(np.stack(logits), axis=0) - np.log(len(logits)), np.float32)


def _logits(rungs: Sequence[Rung]) -> list[Logits]:
    return [rung.predictions.validation for rung in rungs]


def _calibrated_nll(logits: Logits, labels: Labels) -> float:
    return -float(_log_p(logits / np.float32(temperature.fit(logits, labels)), labels).mean())
