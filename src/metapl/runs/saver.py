"""Between two chunks of steps: save the run if it is time, and stop it if it was asked to."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.config import Config
from metapl.evaluate.measures import Scores
from metapl.evaluate.results import Evaluation
from metapl.runs import checkpoint
from metapl.runs.checkpoint import Contents, Note, Writer
from metapl.runs.find import CHECKPOINT_FORMAT
from metapl.runs.journal import Journal, Mark, Unwritten
from metapl.system import processes
from metapl.system.disk import free, reason, write_atomically
from metapl.system.signals import Stop, Stopped
from metapl.train import stored_predictions
from metapl.train.loop import Snapshot

PROGRESS, LOG = "progress.json", "log.jsonl"

Say = Callable[[str], None]
Flush = Callable[[], None]  # writes all reports so far to the journal


@dataclass
class Progress:
    """What a run has done so far, beside its state: a checkpoint holds all of it."""

    group: int = 0  # the group of seeds that is training
    history: list[Evaluation] = field(default_factory=list)
    confusions: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # seed -> [true class, predicted class]
    mark: Mark = Mark()  # in metrics.jsonl
    labels_mark: Mark = Mark()  # in pseudo_labels.jsonl
    seconds: float = 0.0  # of work, in earlier sessions
    begin: float = field(default_factory=time.monotonic)  # when this session began, on the monotonic clock

    def seconds_so_far(self) -> float:
        """Seconds of work in all sessions."""
        return self.seconds + time.monotonic() - self.begin


class Saver:
    """Saves a run; the loop calls `between` between two chunks of steps."""

    def __init__(
        self,
        run: Path,
        config: Config,
        progress: Progress,
        metrics: Journal,
        stop: Stop,
        say: Say,
        labels: Journal | None = None,
    ) -> None:
        self._run, self._config, self._progress, self._stop, self._say = run, config, progress, stop, say
        self._metrics, self._labels = metrics, labels or Unwritten()
        self._folder = run / checkpoint.FOLDER
        self._writer = Writer(self._folder, self._written, self._failed)
        self._notes = {name: _note_or_default(self._folder / name) for name in checkpoint.names(self._folder)}
        self._saved = time.monotonic()
        self._predictions_checksum: tuple[int, int, str | None] | None = None  # of (group, stage)

    @property
    def newest(self) -> str | None:
        """The name of the newest complete checkpoint."""
        return max(self._notes, default=None)

    def between(self, snapshot: Snapshot, flush: Flush = lambda: None) -> None:
        """Save the run if it is time, and stop it if it was asked to; all processes do so at the same step."""
        stopping = self._stop_requested()
        if processes.leader_decides(lambda: self.due(snapshot)):
            self.save(snapshot, flush)
        if stopping:
            self.stop(f"step {snapshot.step:,} of stage {snapshot.stage + 1} of {len(self._config.stages)}")

    def _stop_requested(self) -> bool:
        """Whether a signal has reached any process. The leader decides, so that all stop after the same step."""
        if self._stop.signal is not None and not processes.is_leader():
            processes.request_stop(self._stop.signal)
        number = processes.leader_decides(lambda: self._stop.signal or processes.requested_stop())
        if number is not None and self._stop.signal is None:
            self._stop.signal = Signals(number)
        return number is not None

    def counting(self, counting: stored_predictions.Counting) -> stored_predictions.Counting:
        """Stop on request also while a network predicts for a training set; that goes on from its last batch later."""

        def start(title: str, total: int) -> stored_predictions.Count:
            count = counting(title, total)

            def counted(rows: int) -> None:
                count(rows)
                if self._stop_requested():
                    self.stop(f"{title}, {rows:,} of {total:,}")

            return counted

        return start

    def stop(self, place: str) -> None:
        """Wait for the last checkpoint, then raise `Stopped`."""
        number = self._stop.signal
        assert number is not None
        self._writer.wait()
        kept = f"the newest checkpoint is {self.newest}" if self.newest else "no checkpoint has been written yet"
        log(self._run, "stopped", signal=number.name, checkpoint=self.newest)
        what = f"stopped by {number.name} at {place}; {kept}"
        raise Stopped(what, number, f"metapl resume {self._run} continues from there")

    def save(self, snapshot: Snapshot, flush: Flush) -> None:
        """Begin to write a checkpoint; training goes on as soon as the arrays are copied."""
        self._writer.wait()
        done = steps_done(self._config, self._progress.group, snapshot.stage, snapshot.step)
        flush()
        name, note = checkpoint.name_of(done), self._note(snapshot, done, self._metrics.sync())
        contents = Contents((snapshot.state, snapshot.totals), note, _arrays(self._progress.confusions))
        self._writer.write(name, contents, self._keep(name, note))
        self._saved = time.monotonic()

    def close(self) -> None:
        """Wait until the last checkpoint is on the disk."""
        self._writer.wait()

    def due(self, snapshot: Snapshot) -> bool:
        """Whether it is time to save."""
        settings, step = self._config.checkpoint, snapshot.step
        late = settings.every_minutes > 0 and time.monotonic() - self._saved >= 60 * settings.every_minutes
        by_steps = any(every and step % every == 0 for every in (settings.every_steps, settings.keep_every_steps))
        return self._stop.signal is not None or late or by_steps or step == self._config.stages[snapshot.stage].steps

    def _note(self, snapshot: Snapshot, done: int, mark: Mark) -> Note:
        every = self._config.checkpoint.keep_every_steps
        return {
            "format": CHECKPOINT_FORMAT,
            "group": self._progress.group,
            "stage": snapshot.stage,
            "step": snapshot.step,
            "steps_done": done,
            "lasting": bool(every) and snapshot.step % every == 0,
            "ends_stage": snapshot.step == self._config.stages[snapshot.stage].steps,
            "predictions_crc32c": self._checksum(snapshot),
            "metrics": mark._asdict(),
            "pseudo_labels": self._labels.sync()._asdict(),
            "seconds": round(self._progress.seconds_so_far(), 2),
            "history": [evaluation_to_json(evaluation) for evaluation in self._progress.history],
        }

    def _checksum(self, snapshot: Snapshot) -> str | None:
        """The checksum of the predictions that the stage learns from; computed once, as they are large."""
        key = (self._progress.group, snapshot.stage)
        if self._predictions_checksum is None or self._predictions_checksum[:2] != key:
            value = None if snapshot.predictions is None else stored_predictions.checksum(snapshot.predictions)
            self._predictions_checksum = (*key, value)
        return self._predictions_checksum[2]

    def _keep(self, name: str, note: Note) -> Collection[str]:
        """The checkpoints to keep: the newest, the lasting, and the teacher of a stage that learns from predictions."""
        before = sorted(other for other in self._notes if other < name)
        kept = {other for other in self._notes if self._notes[other]["lasting"]}
        newest = before[len(before) + 1 - self._config.checkpoint.keep :]
        teacher = [other for other in before if self._notes[other]["ends_stage"]][-1:]
        return {name, *kept, *newest, *(teacher if note["predictions_crc32c"] else ())}

    def _written(self, name: str, note: Note) -> None:
        self._notes[name] = note
        progress = {key: note[key] for key in ("group", "stage", "step", "steps_done", "seconds")}
        if not processes.is_leader():
            return
        with suppress(OSError):  # the checkpoint counts even if this file cannot be written
            write_atomically(
                self._run / PROGRESS, json.dumps({"checkpoint": name} | progress, indent=2).encode() + b"\n"
            )
        log(self._run, "checkpoint", checkpoint=name, **progress)

    def _failed(self, name: str, error: Exception) -> None:
        why = reason(error)
        have = f"the newest checkpoint is {self.newest}" if self.newest else "without any checkpoint so far"
        self._say(
            f"checkpoint {name} could not be written: {why} ({free(self._run)} free); training continues, {have}, and "
            "the next one will be tried as usual"
        )
        log(self._run, "checkpoint failed", checkpoint=name, reason=why)


def steps_done(config: Config, group: int, stage: int, step: int) -> int:
    """Steps of the whole run so far: of all groups of seeds, and of all stages."""
    steps = [stage.steps for stage in config.stages]
    return group * sum(steps) + sum(steps[:stage]) + step


def progress_in(path: Path) -> tuple[Progress, Note]:
    """Read what a checkpoint of this version says is done, and its note."""
    note, arrays = checkpoint.read_note(path), checkpoint.read_arrays(path)
    confusions = {
        int(seed): counts.astype(np.int64) for seed, counts in zip(arrays["seeds"], arrays["counts"], strict=True)
    }
    history = [evaluation_from_json(row) for row in note["history"]]
    marks = Mark(**note["metrics"]), Mark(**note["pseudo_labels"])
    return Progress(note["group"], history, confusions, *marks, note["seconds"]), note


def evaluation_to_json(evaluation: Evaluation) -> list[Any]:
    """An evaluation as JSON values, which keep every bit."""
    return [*evaluation[:3], list(evaluation.test), None if evaluation.val is None else list(evaluation.val)]


def evaluation_from_json(row: Sequence[Any]) -> Evaluation:
    """Undo `evaluation_to_json`."""
    seed, stage, step, test, val = row
    return Evaluation(seed, stage, step, Scores(*test), None if val is None else Scores(*val))


def log(run: Path, event: str, **more: Any) -> None:
    """Add a line with the time to log.jsonl, which says what happened; nothing reads it to go on."""
    if not processes.is_leader():
        return
    line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event} | more
    with (
        suppress(OSError),
        (run / LOG).open("a", encoding="utf-8") as file,
    ):  # a disk error will be reported where it matters
        file.write(json.dumps(line) + "\n")


def _arrays(confusions: Mapping[int, NDArray[np.int64]]) -> checkpoint.Arrays:
    counts = np.stack(list(confusions.values())) if confusions else np.zeros((0, 0, 0), np.int64)
    return {"seeds": np.array(list(confusions), np.int64), "counts": counts}


def _note_or_default(path: Path) -> Note:
    """A checkpoint's note; if it cannot be read, one that does not ask to be kept."""
    try:
        return {"lasting": False, "ends_stage": False} | checkpoint.read_note(path)
    except (OSError, ValueError):
        return {"lasting": False, "ends_stage": False}
