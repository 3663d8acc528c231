"""What a folder is that holds no run, where it is known: a sweep's, or the demo's; each has a report of its own."""

import os
from collections.abc import Iterable
from pathlib import Path

_SWEEP = ("sweep.db", "workers", "sweep.json")  # the trials, who is at work on them, and the folder of the report alone
_DEMO = ("two_moons.html", "accuracies.csv")


def told(places: Iterable[Path]) -> str:
    """A sentence about the first of the folders that is of a known kind, and what to look at instead; "" for none."""
    return next((sentence for place in places if (sentence := _told(place))), "")


def _told(place: Path) -> str:
    if any(os.path.exists(place / name) for name in _SWEEP):
        best = _reports(place) / "best-METHOD.toml"
        return (
            f"{place} is the folder of a sweep, whose trials leave no runs: its tables are in {_reports(place)}, and "
            f"metapl train {best} makes a run"
        )
    if any(os.path.exists(place / name) for name in _DEMO):
        return (
            f"{place} is the folder of metapl demo, which leaves no runs: open {place / _DEMO[0]}, or make a run with "
            "metapl train two_moons_mpl"
        )
    return ""


def _reports(place: Path) -> Path:
    """Where the newest tables of a sweep are, or will be."""
    if os.path.exists(place / "sweep.json"):
        return place
    try:
        found = [entry for entry in os.scandir(place) if entry.name.split("-")[0] == "report" and entry.is_dir()]
        return place / max(found, key=lambda entry: entry.stat().st_mtime).name
    except (OSError, ValueError):
        return place / "report"
