"""What all sinks share: a session's description, the names of the curves, and ids that are kept."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
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


def kept_id(path: Path, key: str, make: Callable[[], str]) -> str:
    """Return the stored id, or make and store a new one."""
    ids: dict[str, str] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if key not in ids:
        ids[key] = make()
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(ids, indent=2) + "\n", "utf-8")
        os.replace(partial, path)
    return ids[key]
