"""The measurements as tables."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table

WORK = ("work", "batch", "ms", "best", "quartiles", "images/s", "GFLOP", "of peak", "MiB")
START = ("start", "batch", "first step", "init", "tracing", "compiling", "peak RSS")


def tables(report: dict[str, Any]) -> Iterator[Table]:
    """A table of what was timed, and a table of starts; docs/speed.md explains the columns."""
    settings, machine, peak = report["settings"], report["machine"], report["peak"]
    model, method, size = settings["model"]["name"], settings["method"]["name"], settings["size"]
    table = _table(WORK, f"{model}, {method}, {size}×{size} pictures, {report['parameters']:,} parameters")
    table.caption = (
        f"{machine['devices']} × {machine['device_kind']}, {machine['cores']} cores; "
        f"peak {peak['gflops']:.0f} GFLOP/s ({peak['by']}'s matrix product)"
    )
    for case in report["cases"]:
        table.add_row(*_work(case))
    yield table
    if report["starts"]:
        table = _table(START, "From a new process to the end of its first training step")
        for start in report["starts"]:
            for kind in ("cold", "cached"):
                table.add_row(*_start(kind, start["batch"], start[kind]))
        yield table


def _table(columns: tuple[str, ...], title: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))  # narrow: all columns fit in 80 letters
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _work(case: dict[str, Any]) -> list[str]:
    ms = case["ms"]
    unlabeled = f"+{case['unlabeled_batch']}" if case["unlabeled_batch"] else ""
    return [
        case["work"],
        f"{case['batch']}{unlabeled}",
        _digits(ms["median"]),
        _digits(ms["best"]),
        f"{_digits(ms['low'])}–{_digits(ms['high'])}",
        _digits(case["images_per_s"]),
        _digits(case["gflop"]),
        f"{case['share_of_peak']:.0%}",
        _digits(case["memory_mib"]["total"]),
    ]


def _start(kind: str, batch: int, start: dict[str, float]) -> list[str]:
    parts = (start[part] for part in ("first_step_s", "init_s", "trace_s", "compile_s"))
    return [kind, str(batch), *(f"{seconds:.1f} s" for seconds in parts), f"{start['peak_rss_mib']:,.0f} MiB"]


def _digits(value: float) -> str:
    """Three significant digits, without powers of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
