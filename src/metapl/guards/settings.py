"""What each guard does when it finds something."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

Level = Literal["off", "warn", "stop"]


@dataclass(frozen=True)
class Guards:
    """Who looks at the run's numbers. Each guard speaks once: off, warn and go on, or stop."""

    nonfinite: Level = "stop"
    """A loss, a gradient or a score is no number any more."""
    collapse: Level = "warn"
    """Half of the classes or more are hardly ever given as pseudo labels."""
    mask: Level = "warn"
    """Hardly an unlabelled example (fewer than one in a thousand) is confident enough to be learnt from."""
    zero_gradient: Level = "warn"
    """Nothing is learnt from the unlabelled examples: a loss, a gradient or h is exactly 0."""
    saturated: Level = "warn"
    """h is the same whatever the labels are."""
    teacher: Level = "warn"
    """The teacher does worse on labelled examples than it did."""
    student: Level = "warn"
    """A stage ends with a lower accuracy than the supervised stage at the start of the run had."""
    patience: Annotated[int, Ge(1)] = 3
    """Looks in a row that must be bad: a look is a report, or a fiftieth of the stage where reports are closer."""
