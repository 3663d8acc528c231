"""The shortest time of a step on a chip, and its time if nothing overlaps.

    arithmetic    FLOPs of products and convolutions (bench/flops.py) / peak
    memory        bytes that instructions read and write (memory_traffic.py) / memory bandwidth
    interconnect  bytes sent in collectives (traffic.py) / interconnect bandwidth

A step takes at least the longest of the three, and about their sum if nothing overlaps. Real chips stay below each peak
(depthwise convolutions far below the arithmetic one), so the sum is not an upper bound. The TPU's compiler writes next
to its instructions how many cycles it expects them to take; their sum has these effects, and no collectives.
"""

from typing import NamedTuple

from metapl.plan.chips import Chip
from metapl.plan.traffic import Traffic


class StepTime(NamedTuple):
    """Seconds of a step, by what it waits for."""

    arithmetic: float
    memory: float
    interconnect: float

    @property
    def at_least(self) -> float:
        """Seconds if all three overlap."""
        return max(self)

    @property
    def bound(self) -> str:
        """What the step waits for longest."""
        return max(self._fields, key=lambda name: float(getattr(self, name)))

    @property
    def one_by_one(self) -> float:
        """Seconds if nothing overlaps."""
        return sum(self)


def step_time(chip: Chip, flops_per_device: float, traffic: Traffic) -> StepTime:
    """Divide the work of a step by the speed of the chip."""
    return StepTime(
        flops_per_device / chip.flops_per_s,
        traffic.memory_in_all / chip.memory_bytes_per_s,
        traffic.sent_in_all / chip.interconnect_bytes_per_s,
    )
