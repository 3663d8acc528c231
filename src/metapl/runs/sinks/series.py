"""What all sinks share: what they are told of a session, and what they call the numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.types import Numbers


class Session(NamedTuple):
    """What a sink is told of the seeds that train together."""

    folder: Path  # the run's
    settings: Mapping[str, Any]  # the whole config, as plain values
    seeds: Sequence[int]
    alone: bool  # has the run this one seed only?
    done: int  # steps over all stages that sessions before have done: what they wrote beyond it is written again


def series(numbers: Numbers) -> dict[str, NDArray[np.float32]]:
    """Name the curves, in two groups, and make one of a histogram: the largest share. Each is [R]."""
    curves = {}
    for name, values in numbers.items():
        group = "evaluation" if name.startswith(("test_", "val_")) else "training"
        if values.ndim > 1:
            curves[f"{group}/{name}_max"] = values.max(-1)
        else:
            curves[f"{group}/{name}"] = values
    return curves


def mean_name(seeds: Sequence[int]) -> str:
    """What the mean of several seeds is called."""
    return f"mean-of-seeds-{seeds[0]}-to-{seeds[-1]}"
