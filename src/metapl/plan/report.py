"""A plan as a table and sentences."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table

DAY_S, HOUR_S, MINUTE_S = 86400, 3600, 60


def table(report: dict[str, Any]) -> Table:
    """One row for each number; all are for one device and one step, unless the row says otherwise."""
    title = f"{report['model']}, {report['method']}, {report['parameters']:,} parameters: {report['layout']}"
    shown = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column(justify="right", no_wrap=True)
    for name, value in (*_memory(report), *_work(report), *_times(report), *_compiling(report)):
        shown.add_row(name, value)
    return shown


def _memory(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    memory = report["memory"]
    for kind, size in memory["state"].items():
        yield f"  {kind}", amount(size)
    if not report["refused"]:
        yield "  batch", amount(memory["batch"])
        yield "arguments, as stored in memory", amount(memory["arguments"])
        yield "outputs that need their own memory", amount(memory["outputs"])
        yield "temporaries (activations, gradients)", amount(memory["temporaries"])
        yield "program", amount(memory["program"]) if memory["program"] else "no machine code"
    yield "memory of one device, in all", amount(memory["total"])
    if memory["limit"]:
        yield "  of", amount(memory["limit"])
    yield "", ""


def _work(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "FLOPs of a step, all devices", digits(report["flops"]["step"])
    yield "  of one device", digits(report["flops"]["device"])
    if not report["refused"]:
        yield "bytes that it reads and writes", amount(report["memory_traffic_bytes"])
        for kind, size in report["memory_traffic"].items():
            yield f"  {kind}", amount(size)
        if (stored := report["memory_traffic_with_padding_bytes"]) > report["memory_traffic_bytes"]:
            yield "  with the padding of tiles", amount(stored)
        for kind, collective in report["collectives"].items():
            yield f"{kind}, {collective['count']:,} times: sent", amount(collective["bytes_sent"])
    yield "", ""


def _times(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "step_s" not in report:
        return
    step, stage, chip = report["step_s"], report["stage_s"], report["chip"]
    sent = sum(collective["bytes_sent"] for collective in report["collectives"].values())
    terms = {
        "arithmetic": f"{digits(report['flops']['device'])} FLOP at {chip['flops_per_s'] / 1e12:.4g} TFLOP/s",
        "memory": f"{digits(report['memory_traffic_bytes'])} B at {chip['memory_bytes_per_s'] / 1e9:.4g} GB/s",
        "interconnect": f"{digits(sent)} B at {chip['interconnect_bytes_per_s'] / 1e9:.4g} GB/s",
    }
    for kind, term in terms.items():
        yield f"{kind}: {term}", duration(step[kind]) + (", the bound" if kind == step["bound"] else "")
    if (stored := report["memory_traffic_with_padding_bytes"]) > report["memory_traffic_bytes"]:
        yield "  memory, with the padding of tiles", duration(stored / chip["memory_bytes_per_s"])
    yield "a step: at least, one by one", f"{duration(step['at_least'])}, {duration(step['one_by_one'])}"
    if compiler := report.get("compiler"):
        cycles = f"{digits(compiler['cycles'])} cycles at {chip['clock_hz'] / 1e9:.3g} GHz"
        yield f"  as the compiler expects: {cycles}", duration(compiler["step_s"])
    both = f"{duration(stage['at_least'])}, {duration(stage['one_by_one'])}"
    yield f"{report['steps']:,} steps: at least, one by one", both
    yield "", ""


def _compiling(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    compiling = report["compile"]
    yield "traced, compiled in", f"{duration(compiling['trace_s'])}, {duration(compiling['compile_s'])}"
    yield "memory of the compiler, at most", amount(compiling["peak_rss_bytes"])


def sentences(report: dict[str, Any]) -> Iterator[str]:
    """Whether the step fits, and if not, what would help."""
    memory = report["memory"]
    if report["fits"] and memory["limit"]:
        yield f"It fits: it needs {amount(memory['total'])} of the {amount(memory['limit'])} of a device."
    elif report["fits"]:
        yield f"It needs {amount(memory['total'])} on each device; give --chip to compare that with a chip's memory."
    else:
        refused = "; the compiler refuses it" if report["refused"] else ""
        needs = f"it needs {amount(memory['total'])} on each device, which has {amount(memory['limit'])}{refused}"
        yield f"It does not fit: {needs}. What needs less memory, the cheapest first:"
        yield from (f"  {line}" for line in report["advice"])


def amount(size: float) -> str:
    """Bytes with a unit."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.2f} {name}"
    return f"{size:.0f} B"


def duration(seconds: float) -> str:
    """Seconds with a unit."""
    for unit, name in ((2 * DAY_S, "days"), (2 * HOUR_S, "hours"), (2 * MINUTE_S, "minutes")):
        if seconds >= unit:
            return f"{2 * seconds / unit:,.1f} {name}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def digits(number: float) -> str:
    """Large counts: 1.23e+15."""
    return f"{number:.3g}" if number >= 1e6 else f"{number:,.0f}"
