"""Which network, on pictures of which size, in which batches, for how many steps: what fits the data and the time.

The largest network on the largest pictures that still gets WANTED_STEPS steps of both methods is taken, by the work of
a step and the speed of this machine; then some steps are really done, and their time sets the number of steps.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from metapl import data, recipe
from metapl.bench import peak
from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.fit.request import Request, seconds
from metapl.recipe import Choice
from metapl.system import runtime
from metapl.train.loop import Hooks, train
from metapl.types import Metrics

SIZES = (224, 160, 128, 96, 64, 48, 32)
SMALL, TINY = (
    64,
    12,
)  # below SMALL pixels, networks with an early stride see too little; up to TINY, a perceptron sees all
WANTED_STEPS, MOST_STEPS, LEAST_STEPS = 1500, 10_000, 200
MOST_EPOCHS = 1000  # of the labelled pictures: beyond, a larger budget buys nothing

# MFLOP of a forward pass for each pixel (counted by bench/flops.py on 32² and 64²).
WORK = {
    "mlp": 0.0017, "wrn-10-1": 0.0244, "wrn-16-2": 0.197, "wrn-28-2": 0.419, "resnet-18": 0.0723, "resnet-50": 0.163,
}  # fmt: skip
SHARE_OF_PEAK = 0.25  # of a matrix product's speed that a training step gets, on average over these networks
PROBE_S, PROBE_STEPS = 4.0, 40
COMPILING = 6.0  # how many times longer than the probe all else takes to compile, together
RESERVE = 0.9  # of the budget is planned with

STRONG, EXTREME = 3.0, 10.0  # times the pictures of the smallest class that the largest one has


class Facts(NamedTuple):
    """What the choice depends on."""

    side: int  # the middle one of the pictures' shorter sides
    labels: NDArray[np.int32]
    classes: int
    unlabeled: int


class Probe(NamedTuple):
    """How long the baseline takes on this machine."""

    compile_s: float
    step_s: float


@dataclass(frozen=True)
class Plan:
    """A choice, and why."""

    choice: Choice
    reasons: tuple[str, ...]


Measure = Callable[[Choice], Probe]  # does some steps of the baseline


def plan(request: Request, facts: Facts, measure: Measure, spent_s: float, fixed_network: str = "") -> Plan:
    """Choose, measure, and set the number of steps; `spent_s` of the budget are gone already."""
    budget = seconds(request.budget) * RESERVE - spent_s
    candidates = list(_candidates(request, facts, fixed_network))
    batches = _batches(facts)
    if len(candidates) == 1 or request.steps:
        at = len(candidates) - 1 if len(candidates) > 1 else 0
    else:
        rate = max(peak.matmul_gflops().values()) * SHARE_OF_PEAK * 1e3  # MFLOP/s
        at = _affordable(candidates, batches, facts, budget, rate)
    while True:
        network, size = candidates[at]
        choice = Choice(network, size, PROBE_STEPS, *batches, finetune_steps=1)
        if request.steps:
            steps, told = request.steps, f"{request.steps:,} steps, as asked for"
            break
        started, probe = time.monotonic(), measure(choice)
        budget -= time.monotonic() - started
        possible = _steps(budget - COMPILING * probe.compile_s, probe.step_s, batches, facts)
        if possible < WANTED_STEPS // 3 and at < len(candidates) - 1:
            at += 1
            continue
        steps, told = _bounded(possible, probe, batches, facts)
        break
    choice = dataclasses.replace(choice, steps=steps, finetune_steps=max(10, steps // 20), **_balance(facts))
    return Plan(choice, tuple(_reasons(choice, facts, request, told)))


def _candidates(request: Request, facts: Facts, fixed_network: str) -> Iterator[tuple[str, int]]:
    """Networks and sizes that go together, the most work first."""
    sizes = [size for size in SIZES if size <= facts.side] or [facts.side]
    if request.size:
        sizes = [request.size]
    named = fixed_network or ("" if request.network == "auto" else request.network)
    pairs = [(name, size) for size in sizes for name in ([named] if named else _suited(size))]
    yield from sorted(pairs, key=lambda pair: -_work(*pair))


def _suited(size: int) -> tuple[str, ...]:
    if size <= TINY:
        return ("mlp",)
    return ("wrn-28-2", "wrn-16-2", "wrn-10-1") if size < SMALL else ("resnet-50", "resnet-18")


def _work(network: str, size: int) -> float:
    """MFLOP of one picture's forward pass."""
    return WORK.get(network, WORK["resnet-50"]) * size**2


def _batches(facts: Facts) -> tuple[int, int]:
    """Labelled and unlabelled pictures of a step: few on a CPU, so that there are many steps."""
    labeled, unlabeled = (32, 64) if runtime.is_cpu() else (64, 448)
    return labeled, max(1, min(unlabeled, facts.unlabeled or unlabeled))


def _ratio(batches: tuple[int, int], facts: Facts) -> float:
    """How many steps of the baseline its own steps and one of MPL take together.

    A backward pass is two forward ones. The teacher sees labelled pictures and two views of the unlabelled ones, the
    student one view, and the feedback asks it about the labelled ones: 3 (B + 2U) + 3U + 3B beside 3B. What is in no
    product or convolution makes it half as much again (WRN-10-1, 32 and 64 pictures: 1.3 s against 0.1 s, one core).
    """
    labeled, unlabeled = batches
    return recipe.BASELINE + (1.5 * (2 + 3 * unlabeled / labeled) if facts.unlabeled else 0.0)


def _affordable(
    candidates: list[tuple[str, int]], batches: tuple[int, int], facts: Facts, budget_s: float, rate: float
) -> int:
    for at, (network, size) in enumerate(candidates):
        step_s = 3 * batches[0] * _work(network, size) / rate
        if _steps(budget_s, step_s, batches, facts) >= WANTED_STEPS:
            return at
    return len(candidates) - 1


def _steps(budget_s: float, step_s: float, batches: tuple[int, int], facts: Facts) -> int:
    """How many steps of both methods, and of finetuning, which is a tenth more of the baseline's, fit into it."""
    return int(budget_s / (step_s * (_ratio(batches, facts) + 0.2)))


def _bounded(possible: int, probe: Probe, batches: tuple[int, int], facts: Facts) -> tuple[int, str]:
    enough = min(MOST_STEPS, max(WANTED_STEPS, MOST_EPOCHS * len(facts.labels) // batches[0]))
    each = f"{1e3 * probe.step_s:.3g} ms for a step of the baseline, measured"
    if possible >= enough:
        return enough, f"{enough:,} steps ({each}): more would change little, so the budget is not used up"
    if possible < LEAST_STEPS:
        return LEAST_STEPS, f"{LEAST_STEPS} steps ({each}): the least that make sense, though they need a larger budget"
    return possible, f"{possible:,} steps ({each}): what fits into the budget"


def _balance(facts: Facts) -> dict[str, Any]:
    """Equal classes where sizes differ much; adjusted logits where they differ somewhat."""
    ratio = _imbalance(facts)
    if ratio >= EXTREME:
        return {"sampling": "balanced"}
    return {"prior": recipe.shares(facts.labels, facts.classes)} if ratio >= STRONG else {}


def _imbalance(facts: Facts) -> float:
    counts = np.bincount(facts.labels, minlength=facts.classes)
    return float(counts.max() / max(counts.min(), 1))


def _reasons(choice: Choice, facts: Facts, request: Request, told: str) -> Iterator[str]:
    why = "as asked for" if request.size else f"theirs are about {facts.side}"
    yield f"pictures of {choice.size}×{choice.size} pixels ({why})"
    why = "as asked for" if request.network != "auto" else "the most work that the time allows on such pictures"
    yield f"the network {choice.network} ({'that of --init-from' if request.init_from else why})"
    pictures = f"batches of {choice.labeled_batch} labelled"
    yield f"{pictures} and {choice.unlabeled_batch} unlabelled pictures" if facts.unlabeled else f"{pictures} pictures"
    yield told
    ratio = _imbalance(facts)
    if choice.sampling == "balanced":
        yield f"every class equally often in a batch: the largest has {ratio:.0f} times the pictures of the smallest"
    elif choice.prior:
        yield f"logits adjusted by the classes' shares: the largest has {ratio:.1f} times the pictures of the smallest"


def measuring(config: Callable[[Choice], Config], folder: Path) -> Measure:
    """Do steps of the baseline on the data themselves, until they have taken a few seconds."""
    loaded: dict[int, Dataset] = {}

    def measure(choice: Choice) -> Probe:
        settings = dataclasses.replace(config(choice), log_every_steps=1)
        if choice.size not in loaded:
            loaded[choice.size] = data.load(settings.data, [settings.seed], (folder,))[0]
        times = [time.monotonic()]

        def watch(stage: int, step: int, metrics: Metrics) -> None:
            del stage, step
            jax.block_until_ready(metrics)
            times.append(time.monotonic())
            if times[-1] - times[1] > PROBE_S:
                raise _EnoughError

        with suppress(_EnoughError):
            train(settings, [settings.seed], [loaded[choice.size]], Hooks(watch))
        steps = np.diff(times[1:])
        return Probe(times[1] - times[0], float(np.median(steps)) if len(steps) else times[1] - times[0])

    return measure


class _EnoughError(Exception):
    """The clock has seen enough."""
