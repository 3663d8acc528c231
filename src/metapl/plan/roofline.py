"""How long a step takes at the least, by what a chip can do; and what the same step takes if nothing overlaps.

    arithmetic    FLOPs of products and convolutions (bench/flops.py) / peak
    memory        bytes that instructions read and write (hlo.py) / memory bandwidth
    interconnect  bytes sent in collectives (hlo.py) / interconnect bandwidth

A step takes at least the longest of the three, and about their sum where none hides behind another. Real chips stay
below each peak (depthwise convolutions far below the arithmetic one), so that the sum is no upper bound.
"""

from typing import NamedTuple

from metapl.plan.chips import Chip
from metapl.plan.hlo import Traffic


class StepTime(NamedTuple):
    """Seconds."""

    arithmetic: float
    memory: float
    interconnect: float

    @property
    def at_least(self) -> float:
        """Where all overlap."""
        return max(self)

    @property
    def one_by_one(self) -> float:
        """Where nothing does."""
        return sum(self)


def step_time(chip: Chip, flops_per_device: float, traffic: Traffic) -> StepTime:
    """Divide what has to be done by what can be done."""
    return StepTime(
        flops_per_device / chip.flops_per_s,
        traffic.memory / chip.memory_bytes_per_s,
        traffic.sent_in_all / chip.interconnect_bytes_per_s,
    )
