"""Sentences about a watched run: how far it is, and how it ended."""

from pathlib import Path

from metapl.report.blocks import Block, ProgressBar, Text
from metapl.runs import find
from metapl.runs.find import Run
from metapl.runs.saver import LOG
from metapl.runs.status import SpeedClock, duration, speed


def progress(name: str, run: Run, clock: SpeedClock, now: float) -> Block:
    """How far a running run is."""
    if run.steps is None or not run.total_steps:
        return Text(f"{name} is running.")
    parts = [f"{name} is running: {run.steps:,} of {run.total_steps:,} steps"]
    if (rate := clock.rate) is not None:
        parts.append(speed(rate, "steps"))
    if (left := clock.left(now)) is not None and run.steps < run.total_steps:
        parts.append(f"about {duration(left)} left")
    return ProgressBar(", ".join(parts), run.steps, run.total_steps)


def ending(name: str, run: Run) -> Text:
    """How a run ended, for one on which no process works."""
    return Text(_ending(name, run), "plain" if run.state == "finished" else "warning")


def _ending(name: str, run: Run) -> str:
    done = f" after {run.steps:,} of {run.total_steps:,} steps" if run.steps is not None and run.total_steps else ""
    if run.state == "finished":
        accuracy = f": test accuracy {100 * run.accuracy:.2f} %" if run.accuracy is not None else ""
        return f"{name} has finished{accuracy}."
    if run.state == "stopped, resumable":
        return f"{name} {_stop(run.path)}{done}; metapl resume {run.path} continues it."
    return f"{name} has {'failed' if run.state == 'failed' else 'ended'}{done}: {run.note or run.state}."


def _stop(path: Path) -> str:
    """How a resumable run stopped: the log says who asked for it; a killed process could write nothing there."""
    last = find.last_line(path / LOG)
    if last.get("event") == "stopped":
        return f"was stopped ({last.get('signal', 'by a signal')})"
    return "crashed or was killed"
