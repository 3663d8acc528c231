"""Measure speed and memory for each batch size, one after the other."""

from collections.abc import Callable
from typing import Any

import jax

from metapl.bench import flops, peak, program, start
from metapl.bench.settings import Bench
from metapl.bench.timing import Work, measure
from metapl.schema import to_dict
from metapl.system import runtime

Say = Callable[[str], None]  # shows what is being measured


def benchmark(bench: Bench, say: Say) -> dict[str, Any]:
    """Measure, and return the whole report."""
    say("the machine's fastest matrix product")
    rates = [peak.matmul_gflops()]
    cases, starts = [], []
    for batch in bench.batch:
        if bench.starts:
            say(f"batch {batch}: two starts of the program, without a cache and with one")
            starts.append({"batch": batch, **start.cold_and_cached(bench, batch)})
        cases += _measure(bench, batch, say)
        rates.append(peak.matmul_gflops())  # measured several times: the machine may be busy at one of them
    best = {library: max(rate[library] for rate in rates) for library in rates[0]}
    by = max(best, key=lambda library: best[library])
    for case in cases:
        case["share_of_peak"] = case["gflop"] / case["ms"]["median"] * 1e3 / best[by]
        case["best_share_of_peak"] = case["gflop"] / case["ms"]["best"] * 1e3 / best[by]
    return {
        "settings": to_dict(bench),
        "machine": runtime.describe(),
        "peak": {"gflops": best[by], "by": by, "each": best},
        "parameters": _parameters(bench),
        "cases": cases,
        "starts": starts,
    }


def _measure(bench: Bench, batch: int, say: Say) -> list[dict[str, Any]]:
    """Measure the training step, then the network's predictions for the labelled pictures of that step."""
    case = program.build(bench, batch)
    say(f"batch {batch}: compiling")
    state = case.init(case.key, case.views)
    weights = jax.tree.map(lambda leaf: leaf.copy(), case.predictor(state))  # the step donates the state's memory
    gflop = flops.count(case.step, state, case.views, case.key) / 1e9
    step = case.step.lower(state, case.views, case.key).compile()
    images = program.pictures_in_a_step(step, case.views)
    infer = case.infer.lower(weights, case.views.labeled).compile()

    def train(times: int) -> None:
        nonlocal state
        for _ in range(times):
            state, metrics = step(state, case.views, case.key)
        jax.block_until_ready((state, metrics))

    def predict(times: int) -> None:
        for _ in range(times):
            logits = infer(weights, case.views.labeled)
        jax.block_until_ready(logits)

    say(f"batch {batch}: {bench.repeats} times the training step")
    training = _case("training", batch, images, gflop, step, train, bench.repeats)
    say(f"batch {batch}: {bench.repeats} times inference")
    gflop = flops.count(case.infer, weights, case.views.labeled) / 1e9
    return [training, _case("inference", batch, batch, gflop, infer, predict, bench.repeats)]


def _case(name: str, batch: int, images: int, gflop: float, compiled: Any, work: Work, repeats: int) -> dict[str, Any]:
    ms = measure(work, repeats)
    return {
        "work": name,
        "batch": batch,
        "unlabeled_batch": images - batch,
        "ms": ms._asdict(),
        "images_per_s": images / ms.median * 1e3,
        "gflop": gflop,
        "gflop_per_image": gflop / images,
        "memory_mib": _memory(compiled),
    }


def _memory(compiled: Any) -> dict[str, float]:
    """Memory of the compiled program, from XLA's own plan; an output may reuse the memory of a donated argument."""
    plan = compiled.memory_analysis()
    parts = {
        "arguments": plan.argument_size_in_bytes,
        "outputs": plan.output_size_in_bytes - plan.alias_size_in_bytes,
        "temporaries": plan.temp_size_in_bytes,
    }
    return {name: size / 2**20 for name, size in {**parts, "total": sum(parts.values())}.items()}


def _parameters(bench: Bench) -> int:
    """Number of parameters of the network that is evaluated."""
    case = program.build(bench, bench.batch[0])
    state = jax.eval_shape(case.init, case.key, case.views)
    return sum(leaf.size for leaf in jax.tree.leaves(case.predictor(state).params))
