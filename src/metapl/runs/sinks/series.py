"""What all sinks share: a session's description, and the names of the curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.types import Numbers


class Session(NamedTuple):
    """Describes the seeds that train at once to a sink."""

    folder: Path  # the run's
    settings: Mapping[str, Any]  # the whole config, as plain values
    seeds: Sequence[int]
    alone: bool  # whether the run has only this seed
    done: int  # steps over all stages at the checkpoint; earlier sessions may have written later ones, which come again


def series(numbers: Numbers) -> dict[str, NDArray[np.float32]]:
    """Name the curves, in two groups; a histogram becomes its largest share. Each is [seeds]."""
    curves = {}
    for name, values in numbers.items():
        group = "evaluation" if name.startswith(("test_", "val_")) else "training"
        if values.ndim > 1:
            curves[f"{group}/{name}_max"] = values.max(-1)
        else:
            curves[f"{group}/{name}"] = values
    return curves


def mean_name(seeds: Sequence[int]) -> str:
    """The name of the mean over several seeds."""
    return f"mean-of-seeds-{seeds[0]}-to-{seeds[-1]}"
