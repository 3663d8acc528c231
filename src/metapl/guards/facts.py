"""What the guards know about a stage before it begins, from its settings and its labelled examples.

Settings are found by the names that all methods share, so that no method is named here.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.types import MethodConfig

UNTIL = ("warmup_steps", "ramp_steps", "student_wait_steps")  # until then, small numbers are expected


class Facts(NamedTuple):
    """What the guards compare a stage's numbers with."""

    steps: int
    class_shares: NDArray[np.float64]  # [C] among the labelled examples
    quiet_steps: int  # the guards begin after so many steps; `nonfinite` begins at once
    feedback: bool  # does a teacher get feedback?
    optimizers: tuple[str, ...]  # names of the settings that hold one
    labeled_as: tuple[str, float]  # how labelled examples are shown: view and mixup; accuracies compare only then


def facts(method: MethodConfig, steps: int, labels: NDArray[np.int32], classes: int) -> Facts:
    """Read the facts from a method's settings."""
    feedback = getattr(method, "feedback", None)
    return Facts(
        steps=steps,
        class_shares=np.bincount(labels, minlength=classes) / max(len(labels), 1),
        quiet_steps=max(value for name, value in (("", 0), *_settings(method)) if name in ("", *UNTIL)),
        feedback=feedback is not None and feedback.estimator != "none" and feedback.weight > 0,
        optimizers=tuple(
            field.name for field in dataclasses.fields(method) if hasattr(getattr(method, field.name), "learning_rate")
        ),
        labeled_as=(
            getattr(method, "labeled_view", getattr(method, "view", "weak")),
            getattr(method, "mixup", 0.0),
        ),
    )


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield all settings of a tree, each under its own name."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from _settings(value)
        else:
            yield field.name, value
