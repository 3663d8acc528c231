"""Print an audit to the terminal."""

from rich.console import Console
from rich.table import Table

from metapl.data.audit.audit import Audit, class_counts
from metapl.system.terminal import say


def show(audited: Audit, console: Console) -> None:
    """Print the parts, then the problems, then the notes."""
    console.print(_parts(audited))
    for finding in sorted(audited.findings, key=lambda finding: finding.severity != "problem"):
        style = "red" if finding.severity == "problem" else "yellow"
        say(console, f"{finding.severity}: {finding.text}", style)
    if not audited.findings:
        say(console, "no problems, nothing to note")


def _parts(audited: Audit) -> Table:
    table = Table(title="Parts of the source")
    table.add_column("part")
    for column in ("pictures", "unlabelled", "unreadable", "sizes", "stored as", "classes", "smallest–largest class"):
        table.add_column(column, justify="right")
    for name, part in audited.source.parts.items():
        seen = audited.surveys[name]
        counts = [count for count in class_counts(part, len(audited.source.class_names)) if count]
        table.add_row(
            name,
            f"{len(part.images):,}",
            f"{int((part.labels < 0).sum()):,}",
            f"{len(seen.unreadable):,}",
            _few([f"{width}×{height}" for (height, width), _ in seen.sizes.most_common()]),
            _few([mode for mode, _ in seen.modes.most_common()]),
            f"{len(counts)} of {len(audited.source.class_names)}",
            f"{min(counts):,}–{max(counts):,}" if counts else "–",
        )
    return table


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:2]) + (f" and {len(texts) - 2:,} more" if len(texts) > 2 else "")
