"""What each guard does when something is wrong."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

Level = Literal["off", "warn", "stop"]


@dataclass(frozen=True)
class Guards:
    """What each guard does: off, warn and continue, or stop. Each guard warns once."""

    nonfinite: Level = "stop"
    """A loss, a gradient or a score is not finite."""
    collapse: Level = "warn"
    """Half of the classes or more are hardly ever given as pseudo labels."""
    mask: Level = "warn"
    """Fewer than one in a thousand unlabelled examples are confident enough to be learnt from."""
    zero_gradient: Level = "warn"
    """Nothing is learnt from the unlabelled examples: a loss, a gradient or h is exactly 0."""
    saturated: Level = "warn"
    """h is the same whatever the labels are."""
    teacher: Level = "warn"
    """The teacher does worse on labelled examples than before."""
    student: Level = "warn"
    """A stage ends with a lower accuracy than the supervised stage at the start of the run had."""
    patience: Annotated[int, Ge(1)] = 3
    """Bad observations in a row before a guard warns: an observation is a report, or a fiftieth of the stage if reports
    are closer."""
