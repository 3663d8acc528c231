"""What was measured, as one JSON value and as a table."""

from typing import Any

from rich.table import Table

COLUMNS = (
    ("work", "left"),
    ("batch", "right"),
    ("ms", "right"),
    ("[best, quartiles]", "right"),
    ("images/s", "right"),
    ("GFLOP", "right"),
    ("of peak", "right"),
    ("MiB", "right"),
    ("first step, cold", "right"),
    ("cached", "right"),
)


def table(report: dict[str, Any]) -> Table:
    """One row for each thing that was timed; docs/speed.md says what the columns mean."""
    settings, machine, peak = report["settings"], report["machine"], report["peak"]
    model, method = settings["model"]["name"], settings["method"]["name"]
    table = Table(
        title=f"{model}, {method}, {settings['size']}×{settings['size']}, {report['parameters']:,} parameters",
        caption=f"{machine['devices']} × {machine['device_kind']}, {machine['cores']} cores; "
        f"peak {peak['gflops']:.0f} GFLOP/s ({peak['by']}'s matrix product)",
    )
    for name, side in COLUMNS:
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for case in report["cases"]:
        table.add_row(*_row(case))
    return table


def _row(case: dict[str, Any]) -> list[str]:
    ms, start = case["ms"], case.get("start")
    unlabeled = f"+{case['unlabeled_batch']}" if case["unlabeled_batch"] else ""
    return [
        case["work"],
        f"{case['batch']}{unlabeled}",
        f"{ms['median']:.3g}" if ms["median"] < 100 else f"{ms['median']:.0f}",
        f"[{ms['best']:.3g}, {ms['low']:.3g}, {ms['high']:.3g}]",
        f"{case['images_per_s']:,.0f}",
        f"{case['gflop']:.3g}",
        f"{case['share_of_peak']:.0%}",
        f"{case['memory_mib']['total']:,.0f}",
        f"{start['cold']['first_step_s']:.1f} s" if start else "",
        f"{start['cached']['first_step_s']:.1f} s" if start else "",
    ]
