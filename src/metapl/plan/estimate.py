"""Compile one stage's step and estimate its memory, traffic and time."""

import time
from collections.abc import Callable
from typing import Any

from metapl.config import Config
from metapl.plan import memory, roofline, traffic
from metapl.plan.advice import advice
from metapl.plan.example_shape import ExampleShape
from metapl.plan.memory import DeviceMemory, Refusal
from metapl.plan.placed import compile_until_placed
from metapl.plan.planned_program import PlannedProgram, planned_program
from metapl.plan.target import Machine
from metapl.system import runtime

Say = Callable[[str], None]  # shows what is being done


def plan(
    config: Config, index: int, examples: ExampleShape, machine: Machine, say: Say, *, machine_code: bool = True
) -> dict[str, Any]:
    """The report on one stage: memory, FLOPs, traffic, times, and advice if it does not fit.

    Without `machine_code`, the compiler is still at work when this returns: the process must end by os._exit.
    """
    say("tracing the step")
    begin = time.perf_counter()
    planned = planned_program(config, index, examples, machine.devices)
    lowered = planned.advance.lower(*planned.arguments)
    traced_s = time.perf_counter() - begin
    say("compiling it")
    compiled, refused = _compile(lowered, machine_code)
    compile_s = time.perf_counter() - begin - traced_s
    devices = planned.layout.devices
    report: dict[str, Any] = {
        "devices": devices,
        "chip": machine.chip._asdict() if machine.chip else None,
        "layout": planned.layout.words or "one device",
        "stage": index,
        "method": config.stages[index].method.name,
        "model": config.stage_models[index].name,
        "parameters": planned.parameters,
        "steps": config.stages[index].steps,
        "labeled_batch": config.stages[index].labeled_batch,
        "unlabeled_batch": config.stages[index].unlabeled_batch,
        "microbatches": config.stages[index].microbatches,
        "flops": {"step": planned.flops, "device": planned.flops / devices},
        "compile": {"trace_s": traced_s, "compile_s": compile_s, "peak_rss_bytes": runtime.peak_rss_bytes()},
    }
    if refused:
        report |= _refused(planned, refused)
    else:
        say("reading the program")
        report |= _needs(compiled, planned, machine, config.stages[index].steps)
    report["advice"] = [] if report["fits"] else advice(config, index, devices)
    return report


def _compile(lowered: Any, machine_code: bool) -> tuple[Any, Refusal | None]:
    """The compiled program, or the compiler's refusal."""
    try:
        return lowered.compile() if machine_code else compile_until_placed(lowered), None
    except RuntimeError as error:
        if refused := memory.refusal(str(error)):
            return None, refused
        raise


def _refused(planned: PlannedProgram, refused: Refusal) -> dict[str, Any]:
    return {
        "fits": False,
        "memory": {"state": memory.by_kind(planned.state), "total": refused.needed, "limit": refused.granted},
        "refused": True,
    }


def _needs(compiled: Any, planned: PlannedProgram, machine: Machine, steps: int) -> dict[str, Any]:
    needs: DeviceMemory = memory.of(compiled, planned.state, planned.batch)
    moved = traffic.of(compiled.as_text(), planned.layout.devices)
    chip = machine.chip
    report: dict[str, Any] = {
        "fits": chip is None or needs.total <= chip.limit,
        "memory": needs._asdict() | {"total": needs.total, "limit": chip.limit if chip else None},
        "refused": False,
        "collectives": {kind: {"count": moved.counts[kind], "bytes_sent": moved.sent[kind]} for kind in moved.counts},
        "memory_traffic_bytes": moved.memory_in_all,
        "memory_traffic": moved.memory,
        "memory_traffic_with_padding_bytes": moved.stored,
    }
    if chip:
        seconds = roofline.step_time(chip, planned.flops / planned.layout.devices, moved)
        both = {"at_least": seconds.at_least, "one_by_one": seconds.one_by_one}
        report["step_s"] = seconds._asdict() | both | {"bound": seconds.bound}
        if chip.clock_hz and moved.cycles:
            report["compiler"] = {"cycles": moved.cycles, "step_s": moved.cycles / chip.clock_hz}
        report["stage_s"] = {"at_least": steps * seconds.at_least, "one_by_one": steps * seconds.one_by_one}
    return report
