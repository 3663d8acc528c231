"""Choose the network, the size of pictures, the batches and the steps that suit the data and the time.

Chosen is the largest network on the largest pictures that still gets WANTED_STEPS steps of both methods, estimated from
the work of a step and the speed of this machine. Then some steps are measured, and their time sets the number of steps.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl import recipe
from metapl.bench import peak
from metapl.fit import probe
from metapl.fit.budget import COMPILING, RESERVE, WANTED_STEPS, Batches, bounded_steps, steps_within
from metapl.fit.probe import Measure
from metapl.fit.request import Request
from metapl.recipe import Choice
from metapl.system import runtime

SIZES = (224, 160, 128, 96, 64, 48, 32)
SMALL = 64  # below so many pixels, networks with an early stride see too little
TINY = 12  # up to so many pixels, a perceptron sees everything

# MFLOP of a forward pass for each pixel (counted by bench/flops.py on 32² and 64²).
WORK = {
    "mlp": 0.0017, "wrn-10-1": 0.0244, "wrn-16-2": 0.197, "wrn-28-2": 0.419, "resnet-18": 0.0723, "resnet-50": 0.163,
}  # fmt: skip
SHARE_OF_PEAK = 0.25  # of a matrix product's speed that a training step reaches, on average over these networks

STRONG, EXTREME = 3.0, 10.0  # imbalance: the largest class's pictures divided by the smallest class's

NetworkAndSize = tuple[str, int]


class DataSummary(NamedTuple):
    """What the choice depends on."""

    side: int  # the median of the pictures' shorter sides
    class_counts: NDArray[np.int64]  # labelled pictures of each class
    unlabeled: int

    @property
    def imbalance(self) -> float:
        """The largest class's pictures divided by the smallest class's."""
        return imbalance(self.class_counts)


def imbalance(class_counts: NDArray[np.int64]) -> float:
    """The largest class's pictures divided by the smallest class's."""
    return float(class_counts.max() / max(class_counts.min(), 1))


@dataclass(frozen=True)
class NetworkPlan:
    """What was chosen, and why."""

    choice: Choice
    reasons: tuple[str, ...]


def plan(request: Request, data: DataSummary, measure: Measure, left_s: float, fixed_network: str = "") -> NetworkPlan:
    """Choose, measure, and set the number of steps for the time that is left."""
    candidates = list(_candidates(request, data, fixed_network))
    batches = _batches(data)
    if request.steps:
        (network, size), steps, why = candidates[-1], request.steps, f"{request.steps:,} steps, as requested"
    else:
        (network, size), steps, why = _largest_in_time(candidates, batches, data, measure, RESERVE * left_s)
    choice = Choice(network, size, steps, *batches, finetune_steps=max(10, steps // 20), **_balancing(data))
    return NetworkPlan(choice, tuple(_reasons(choice, data, request, why)))


def _candidates(request: Request, data: DataSummary, fixed_network: str) -> Iterator[NetworkAndSize]:
    """Networks with sizes that suit them, the most work first."""
    sizes = [size for size in SIZES if size <= data.side] or [data.side]
    if request.size:
        sizes = [request.size]
    named = fixed_network or ("" if request.network == "auto" else request.network)
    pairs = [(name, size) for size in sizes for name in ([named] if named else _networks_for(size))]
    yield from sorted(pairs, key=lambda pair: -_work(*pair))


def _networks_for(size: int) -> tuple[str, ...]:
    if size <= TINY:
        return ("mlp",)
    return ("wrn-28-2", "wrn-16-2", "wrn-10-1") if size < SMALL else ("resnet-50", "resnet-18")


def _work(network: str, size: int) -> float:
    """MFLOP of one picture's forward pass."""
    return WORK.get(network, WORK["resnet-50"]) * size**2


def _batches(data: DataSummary) -> Batches:
    """Small batches on a CPU, so that the budget allows many steps."""
    labeled, unlabeled = (32, 64) if runtime.is_cpu() else (64, 448)
    return Batches(labeled, max(1, min(unlabeled, data.unlabeled or unlabeled)))


def _largest_in_time(
    candidates: list[NetworkAndSize], batches: Batches, data: DataSummary, measure: Measure, budget_s: float
) -> tuple[NetworkAndSize, int, str]:
    """The first candidate that gets enough steps, how many, and why; measuring it takes its share of the budget."""
    at = 0 if len(candidates) == 1 else _first_affordable(candidates, batches, data, budget_s)
    while True:
        network, size = candidates[at]
        started = time.monotonic()
        times = measure(Choice(network, size, probe.STEPS, *batches, finetune_steps=1))
        budget_s -= time.monotonic() - started
        left_s = budget_s - COMPILING * times.compile_s
        possible = steps_within(left_s, times.step_s, batches, data.unlabeled > 0)
        if possible >= WANTED_STEPS // 3 or at == len(candidates) - 1:
            return candidates[at], *bounded_steps(possible, times, batches, int(data.class_counts.sum()))
        at += 1


def _first_affordable(candidates: list[NetworkAndSize], batches: Batches, data: DataSummary, budget_s: float) -> int:
    """The first candidate that should get WANTED_STEPS steps, estimated; else the last one."""
    rate = max(peak.matmul_gflops().values()) * SHARE_OF_PEAK * 1e3  # MFLOP/s
    for at, (network, size) in enumerate(candidates):
        step_s = 3 * batches.labeled * _work(network, size) / rate
        if steps_within(budget_s, step_s, batches, data.unlabeled > 0) >= WANTED_STEPS:
            return at
    return len(candidates) - 1


def _balancing(data: DataSummary) -> dict[str, Any]:
    """Balanced batches for an extreme imbalance; adjusted logits for a strong one."""
    if data.imbalance >= EXTREME:
        return {"sampling": "balanced"}
    return {"prior": recipe.shares(data.class_counts)} if data.imbalance >= STRONG else {}


def _reasons(choice: Choice, data: DataSummary, request: Request, why_steps: str) -> Iterator[str]:
    why = "as requested" if request.size else f"your median side: {data.side} px"
    yield f"pictures of {choice.size}×{choice.size} pixels ({why})"
    why = "as requested" if request.network != "auto" else "the largest that the budget allows for such pictures"
    yield f"the network {choice.network} ({'from --init-from' if request.init_from else why})"
    labeled = f"batches of {choice.labeled_batch} labelled"
    yield f"{labeled} and {choice.unlabeled_batch} unlabelled pictures" if data.unlabeled else f"{labeled} pictures"
    yield why_steps
    if choice.sampling == "balanced":
        yield f"every class equally often in a batch: {_compared(data)}"
    elif choice.prior:
        yield f"logits adjusted by the classes' shares: {_compared(data)}"


def _compared(data: DataSummary) -> str:
    digits = 0 if data.imbalance >= EXTREME else 1
    return f"the largest class has {data.imbalance:.{digits}f} times the pictures of the smallest"
