"""A sweep from its settings to its report: start workers until every method has its trials, then write the report."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.schema import ConfigError
from metapl.sweep import report, store, worker
from metapl.sweep.settings import SweepSettings
from metapl.sweep.store import MethodStudy
from metapl.system import runtime
from metapl.system.folders import all_or_nothing, next_free
from metapl.system.terminal import say

POLL_S = 0.5
ORPHAN_S = 20  # a running trial that still names no worker after this time was left by one that died


def sweep(
    settings: SweepSettings, name: str, url: str, workers: int, out: Path, console: Console, validation: int
) -> Path:
    """Do all trials of every method and print the table; return the folder of the report."""
    storage = store.connect(url)
    studies = [store.open_study(storage, name, method, settings.budget) for method in settings.methods]
    store.refresh(studies)
    job = worker.Job(settings, name, url, out)
    with _progress(console, studies) as show:
        while _open(studies):
            before = _done(studies)
            _work(job, studies, min(workers, _open(studies)), show)
            _give_up_orphans(studies)
            if _open(studies) and _done(studies) == before:
                raise ConfigError(
                    "the workers ended without finishing a trial; their messages are above. Finished trials are kept: "
                    "run the same command again to continue"
                )
    summaries = [report.summarize(study) for study in studies]
    folder = next_free(out / "report")
    with all_or_nothing(folder) as place:
        report.write(studies, settings, place)
    console.print(report.table(summaries, validation))
    for remark in report.remarks(summaries, validation):
        say(console, remark)
    return folder


def _work(job: worker.Job, studies: list[MethodStudy], workers: int, show: Callable[[], None]) -> None:
    """Work in this process if there is one worker; otherwise start one process for each and wait for them."""
    if workers == 1:
        runtime.start(keep_programs=False)
        worker.work(studies, job.settings, job.out, show)
        return
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=worker.main, args=(job,), daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        time.sleep(POLL_S)
        show()
    show()


def _open(studies: list[MethodStudy]) -> int:
    """How many trials no worker has taken yet; trials that run on other machines are not waited for."""
    return sum(
        study.trials - sum(_is_taken(trial.state) for trial in store.owners(study).values()) for study in studies
    )


def _is_taken(state: TrialState) -> bool:
    return state == TrialState.RUNNING or state in store.DONE


def _done(studies: list[MethodStudy]) -> int:
    return sum(len(report.finished(study)) for study in studies)


def _give_up_orphans(studies: list[MethodStudy]) -> None:
    """Give up the trials of dead workers, also of one that died after it took a trial and before it wrote its name."""
    deadline = time.monotonic() + ORPHAN_S
    while orphans := [(study, trial) for study in studies for trial in _without_worker(study)]:
        if time.monotonic() > deadline:
            for study, trial in orphans:
                store.fail(study, trial, "its worker was killed")
        time.sleep(POLL_S)
    store.refresh(studies)


def _without_worker(study: MethodStudy) -> list[FrozenTrial]:
    running = study.optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [trial for trial in running if "worker" not in trial.user_attrs]


@contextmanager
def _progress(console: Console, studies: list[MethodStudy]) -> Iterator[Callable[[], None]]:
    """Show a bar with the time left on a terminal; elsewhere print a line for each trial that ends."""
    total = sum(study.trials for study in studies)
    if not console.is_terminal:
        seen = {(study.method.name, trial.number) for study in studies for trial in report.finished(study)}
        yield lambda: _print_new(console, studies, seen, total)
        return
    columns = (TextColumn("trials"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=True), console=console
    ) as bar:
        task = bar.add_task("trials", total=total, completed=_done(studies))
        yield lambda: bar.update(task, completed=_done(studies))


def _print_new(console: Console, studies: list[MethodStudy], seen: set[tuple[str, int]], total: int) -> None:
    for study in studies:
        for trial in report.finished(study):
            if (study.method.name, trial.number) not in seen:
                seen.add((study.method.name, trial.number))
                value = trial.user_attrs.get("failure") or f"{100 * (trial.value or 0):.2f} %"
                outcome = f"trial {trial.user_attrs['slot']}: {value}, {trial.user_attrs.get('seconds', 0)} s"
                line = f"{study.method.name}, {outcome} ({len(seen)} of {total})"
                say(console, line)
