"""`metapl doctor`."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from metapl.cli import doctor_checks
from metapl.cli.doctor_checks import MachineFinding, State
from metapl.cli.flags import parse
from metapl.system.terminal import Terminal, say

_MARKS: Mapping[State, str] = {"fine": "[green]fine[/]", "note": "[yellow]note[/]", "broken": "[red]broken[/]"}


@dataclass(frozen=True)
class DoctorFlags:
    """Where to look, and how to print."""

    data_dir: Path | None = None
    """Where to look for data files, besides the user's cache."""
    json: bool = False
    """Print JSON instead of the table."""


def doctor(args: Sequence[str]) -> None:
    """Check this machine: versions, devices, data, disk, one step.

    Each line says fine, note or broken, and what to do about it. The step is a tiny step of MPL in a process of its
    own, compiled and run twice: its numbers must be finite and the same, bit for bit.

    Exit code 0: nothing is broken; 1: something is.

    Examples:
      metapl doctor
      metapl doctor --data-dir ~/data
      metapl doctor --json
    """
    flags = parse(DoctorFlags, "metapl doctor", doctor, args)
    findings, terminal = doctor_checks.examine(flags.data_dir), Terminal()
    if flags.json:
        say(terminal, json.dumps(as_json(findings), indent=2))
    else:
        terminal.print(table(findings))
    if is_broken(findings):
        sys.exit(1)


def table(findings: Sequence[MachineFinding]) -> Table:
    """Return the findings as a table; advice stands under the finding."""
    rows = Table("", "", "", show_header=False)
    for finding in findings:
        text = escape(finding.text) + (f"\n[italic]→ {escape(finding.advice)}[/]" if finding.advice else "")
        rows.add_row(finding.topic, _MARKS[finding.state], text)
    return rows


def as_json(findings: Sequence[MachineFinding]) -> list[dict[str, Any]]:
    """Return the findings for JSON."""
    return [finding._asdict() for finding in findings]


def is_broken(findings: Sequence[MachineFinding]) -> bool:
    """Tell whether anything is broken that a run needs."""
    return any(finding.state == "broken" for finding in findings)
