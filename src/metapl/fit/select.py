"""Which rung to use: by pictures that neither trained it nor measure it, and by what was best on other data.

With few labels, validation is mostly chance: of 200 pictures, two rungs that differ by three points disagree about
some ten. The best of eight rungs by such numbers is mostly chosen by chance. So the first rung of PREFERRED that is
there is used, unless another one gets more of the same validation pictures right, by more than chance explains:

    z = the mean of the paired difference, divided by its standard error
    another rung is used if z > Φ⁻¹(1 − CHANCE / n)        n: how many others there are (Bonferroni)

So a larger budget, which adds rungs, makes a wrong choice no more probable: if no rung is better than the usual one,
another is used in 2.5 % of all fits at most. Of several such rungs, the one whose advantage is the surest is used.
PREFERRED was chosen on development draws (docs/features.md); CHANCE is the usual one and was not tuned.

| symbol | name      |
|--------|-----------|
| Φ⁻¹(…) | needed    |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from metapl.evaluate import temperature
from metapl.evaluate.measures import log_softmax
from metapl.fit.rung import Logits, Rung

PREFERRED = ("joint_finetuned", "finetuned", "joint", "own_network", "aligned", "linear")  # some are not always tried
CHANCE = 0.025

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
    """The rung to use; the usual one if there are no validation pictures."""
    scored = [rung for rung in rungs if validate(rung, labels) is not None]
    if not scored:
        return favourite(rungs)
    usual = favourite(scored)
    needed = float(stats.norm.ppf(1 - CHANCE / max(len(scored) - 1, 1)))
    leads = [_surely_ahead_by(rung, usual, labels, needed) for rung in scored]
    return scored[int(np.argmax(leads))] if max(leads) > 0 else usual


def favourite(rungs: Sequence[Rung]) -> Rung:
    """The rung that is used unless another one is surely better."""
    return next((rung for name in PREFERRED for rung in rungs if rung.about.name == name), rungs[0])


def _surely_ahead_by(rung: Rung, other: Rung, labels: Labels, needed: float) -> float:
    """What a rung is better by, less so many standard errors; negative for the other one itself."""
    mean, error = _difference(rung, other, labels)
    return mean - needed * error


def _difference(one: Rung, other: Rung, labels: Labels) -> tuple[float, float]:
    """Mean and standard error of one's accuracy minus the other's, on the pictures that both predicted."""
    both = predicted(one) & predicted(other)
    right = [rung.predictions.validation[both].argmax(-1) == labels[both] for rung in (one, other)]
    ahead, behind, n = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum()), max(len(right[0]), 1)
    variance = ahead + behind + 1 - (ahead - behind) ** 2 / n  # one picture more: a single one proves nothing
    return (ahead - behind) / n, float(variance**0.5) / n


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
