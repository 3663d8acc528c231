"""Explain folders that hold no run but belong to a sweep or to the demo, each of which has its own report."""

import os
from collections.abc import Iterable
from pathlib import Path

_SWEEP = ("sweep.db", "workers", "sweep.json")  # the trials, the workers' locks, and a file of the report's folder
_DEMO = ("two_moons.html", "accuracies.csv")


def explain(places: Iterable[Path]) -> str:
    """A sentence about the first folder of a sweep or a demo, and what to look at instead; "" if none is."""
    return next((sentence for place in places if (sentence := _explain(place))), "")


def _explain(place: Path) -> str:
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
    """The folder of a sweep's newest tables, or where they will be."""
    if os.path.exists(place / "sweep.json"):
        return place
    try:
        reports = [entry for entry in os.scandir(place) if entry.name.split("-")[0] == "report" and entry.is_dir()]
        return place / max(reports, key=lambda entry: entry.stat().st_mtime).name
    except (OSError, ValueError):
        return place / "report"
