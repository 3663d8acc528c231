"""A sweep from its plan to its report: workers come and go, the database remembers."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.schema import ConfigError
from metapl.sweep import report, store, work
from metapl.sweep.plan import Plan
from metapl.sweep.store import Row
from metapl.system import runtime
from metapl.system.folders import next_free
from metapl.system.terminal import say

POLL_S = 0.5
ORPHAN_S = 20  # after so long, a trial that has no worker's name yet never gets one


def run(plan: Plan, sweep: str, url: str, workers: int, out: Path, console: Console, validation: int) -> Path:
    """Bring every method to its number of trials; print the table, and give the folder of the report."""
    storage = store.connect(url)
    rows = [store.row(storage, sweep, method, plan.budget) for method in plan.methods]
    for row in rows:
        store.reap(row)
        store.fill(row)
    job = work.Job(plan, sweep, url, out)
    with _progress(console, rows) as show:
        while _open(rows):
            before = _done(rows)
            _work(job, rows, min(workers, _open(rows)), show)
            _settle(rows)
            if _open(rows) and _done(rows) == before:
                raise ConfigError(
                    "the workers ended without finishing a trial; what they said stands above. Nothing is lost: the "
                    "same command goes on"
                )
    summaries = [report.summarize(row) for row in rows]
    folder = next_free(out / "report")
    folder.mkdir()
    report.write(rows, plan, folder)
    console.print(report.table(summaries, validation))
    for remark in report.remarks(summaries, validation):
        say(console, remark)
    return folder


def _work(job: work.Job, rows: list[Row], workers: int, show: Callable[[], None]) -> None:
    """One worker is this process; several are processes of their own, which this one looks after."""
    if workers == 1:
        runtime.start(keep_programs=False)
        work.work(rows, job.plan, job.out, show)
        return
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=work.main, args=(job,), daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        time.sleep(POLL_S)
        show()
    show()


def _open(rows: list[Row]) -> int:
    """Trials that nobody does yet; those that run elsewhere are not waited for."""
    return sum(row.trials - sum(_is_busy(trial.state) for trial in store.owners(row).values()) for row in rows)


def _is_busy(state: TrialState) -> bool:
    return state == TrialState.RUNNING or state in store.DONE


def _done(rows: list[Row]) -> int:
    return sum(len(report.finished(row)) for row in rows)


def _settle(rows: list[Row]) -> None:
    """Give up what dead workers left: also the trial of one that died between taking it and saying so."""
    deadline = time.monotonic() + ORPHAN_S
    while orphans := [(row, trial) for row in rows for trial in _nameless(row)]:
        if time.monotonic() > deadline:
            for row, trial in orphans:
                store.fail(row, trial, "its worker was killed")
        time.sleep(POLL_S)
    for row in rows:
        store.reap(row)
        store.fill(row)


def _nameless(row: Row) -> list[FrozenTrial]:
    running = row.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [trial for trial in running if "worker" not in trial.user_attrs]


@contextmanager
def _progress(console: Console, rows: list[Row]) -> Iterator[Callable[[], None]]:
    """A bar with the time that is left; where there is no terminal, a line for each trial that ends."""
    total = sum(row.trials for row in rows)
    if not console.is_terminal:
        seen = {(row.method.name, trial.number) for row in rows for trial in report.finished(row)}
        yield lambda: _lines(console, rows, seen, total)
        return
    columns = (TextColumn("trials"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=True), console=console
    ) as bar:
        task = bar.add_task("trials", total=total, completed=_done(rows))
        yield lambda: bar.update(task, completed=_done(rows))


def _lines(console: Console, rows: list[Row], seen: set[tuple[str, int]], total: int) -> None:
    for row in rows:
        for trial in report.finished(row):
            if (row.method.name, trial.number) not in seen:
                seen.add((row.method.name, trial.number))
                value = trial.user_attrs.get("failure") or f"{100 * (trial.value or 0):.2f} %"
                told = f"trial {trial.user_attrs['slot']}: {value}, {trial.user_attrs.get('seconds', 0)} s"
                line = f"{row.method.name}, {told} ({len(seen)} of {total})"
                say(console, line)
