"""Between two pieces of steps: is it time to save the run, was it asked to stop, and where can it go on from?"""

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
from metapl.runs.journal import Journal, Mark, Unwritten
from metapl.schema import ConfigError
from metapl.system import processes
from metapl.system.disk import free, reason, write_atomically
from metapl.system.signals import Stop, Stopped
from metapl.train import stored_predictions
from metapl.train.loop import Snapshot

FORMAT = 1
PROGRESS, LOG = "progress.json", "log.jsonl"

Tell = Callable[[str], None]


@dataclass
class Progress:
    """What a run has found so far, beside its weights: all of it goes into a checkpoint, and comes back from it."""

    group: int = 0  # which of the groups of seeds is training
    history: list[Evaluation] = field(default_factory=list)
    confusions: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # seed -> [right class, answer], the last
    mark: Mark = Mark()  # of the metrics
    labels_mark: Mark = Mark()  # of the pseudo labels
    seconds: float = 0.0  # of work, in all sessions
    begin: float = field(default_factory=time.monotonic)  # of this session, on the monotonic clock

    def seconds_so_far(self) -> float:
        """All sessions' together."""
        return self.seconds + time.monotonic() - self.begin


class Saver:
    """What the loop calls between two pieces of its steps."""

    def __init__(
        self,
        run: Path,
        config: Config,
        found: Progress,
        lines: Journal,
        stop: Stop,
        tell: Tell,
        labels: Journal | None = None,
    ) -> None:
        self._run, self._config, self._found, self._stop, self._tell = run, config, found, stop, tell
        self._lines, self._labels = lines, labels or Unwritten()
        self.flush: Callable[[], None] = lambda: None  # has all reports so far written to `lines`
        self._folder = run / checkpoint.FOLDER
        self._writer = Writer(self._folder, self._written, self._failed)
        self._notes = {name: _kept(self._folder / name) for name in checkpoint.names(self._folder)}
        self._saved = time.monotonic()
        self._answers: tuple[int, int, str | None] | None = None

    @property
    def newest(self) -> str | None:
        """The last checkpoint that was written to its end."""
        return max(self._notes, default=None)

    def between(self, snapshot: Snapshot) -> None:
        """Save the run if it is time, and stop it if someone has asked for that; of several processes, all at once."""
        asked = self._asked()
        if processes.leader_decides(lambda: self.due(snapshot)):
            self.save(snapshot)
        if asked:
            self.stop(f"step {snapshot.step:,} of stage {snapshot.stage + 1} of {len(self._config.stages)}")

    def _asked(self) -> bool:
        """Has a signal reached any process? Process 0's word counts, so that all stop after the same step."""
        if self._stop.asked is not None and not processes.is_leader():
            processes.request_stop(self._stop.asked)
        number = processes.leader_decides(lambda: self._stop.asked or processes.requested_stop())
        if number is not None and self._stop.asked is None:
            self._stop.asked = Signals(number)
        return number is not None

    def counting(self, counting: stored_predictions.Counting) -> stored_predictions.Counting:
        """Stop on request while a network predicts for a training set, too: that goes on from its last batch."""

        def start(title: str, total: int) -> stored_predictions.Count:
            count = counting(title, total)

            def counted(rows: int) -> None:
                count(rows)
                if self._asked():
                    self.stop(f"{title}, {rows:,} of {total:,}")

            return counted

        return start

    def stop(self, place: str) -> None:
        """End the session; its last checkpoint is whole, or there is a word about it."""
        asked = self._stop.asked
        assert asked is not None
        self._writer.wait()
        kept = f"the newest checkpoint is {self.newest}" if self.newest else "no checkpoint has been written yet"
        log(self._run, "stopped", signal=asked.name, checkpoint=self.newest)
        raise Stopped(
            f"stopped by {asked.name} at {place}; {kept}; metapl resume {self._run} goes on from there", asked
        )

    def save(self, snapshot: Snapshot) -> None:
        """Begin to write a checkpoint; the training goes on as soon as the arrays are copied."""
        self._writer.wait()
        done = steps_done(self._config, self._found.group, snapshot.stage, snapshot.step)
        self.flush()
        name, note = checkpoint.name_of(done), self._note(snapshot, done, self._lines.sync())
        contents = Contents((snapshot.state, snapshot.totals), note, _arrays(self._found.confusions))
        self._writer.write(name, contents, self._keep(name, note))
        self._saved = time.monotonic()

    def close(self) -> None:
        """Wait until all is on the disk."""
        self._writer.wait()

    def due(self, snapshot: Snapshot) -> bool:
        """Is it time?"""
        settings, step = self._config.checkpoint, snapshot.step
        late = settings.every_minutes > 0 and time.monotonic() - self._saved >= 60 * settings.every_minutes
        by_steps = any(every and step % every == 0 for every in (settings.every_steps, settings.keep_every_steps))
        return self._stop.asked is not None or late or by_steps or step == self._config.stages[snapshot.stage].steps

    def _note(self, snapshot: Snapshot, done: int, mark: Mark) -> Note:
        every = self._config.checkpoint.keep_every_steps
        return {
            "format": FORMAT,
            "group": self._found.group,
            "stage": snapshot.stage,
            "step": snapshot.step,
            "steps_done": done,
            "lasting": bool(every) and snapshot.step % every == 0,
            "ends_stage": snapshot.step == self._config.stages[snapshot.stage].steps,
            "predictions_crc32c": self._checksum(snapshot),
            "metrics": mark._asdict(),
            "pseudo_labels": self._labels.sync()._asdict(),
            "seconds": round(self._found.seconds_so_far(), 2),
            "history": [evaluation_to_json(evaluation) for evaluation in self._found.history],
        }

    def _checksum(self, snapshot: Snapshot) -> str | None:
        """Of the predictions that the stage learns from; once for each stage, as they are large."""
        key = (self._found.group, snapshot.stage)
        if self._answers is None or self._answers[:2] != key:
            value = None if snapshot.predictions is None else stored_predictions.checksum(snapshot.predictions)
            self._answers = (*key, value)
        return self._answers[2]

    def _keep(self, name: str, note: Note) -> Collection[str]:
        """The newest ones, those that are kept for good, and the teacher of a stage that learns from predictions."""
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
        with suppress(OSError):  # the checkpoint is there, whether this can be written or not
            write_atomically(
                self._run / PROGRESS, json.dumps({"checkpoint": name} | progress, indent=2).encode() + b"\n"
            )
        log(self._run, "checkpoint", checkpoint=name, **progress)

    def _failed(self, name: str, error: Exception) -> None:
        why = reason(error)
        have = f"the newest checkpoint is {self.newest}" if self.newest else "without any checkpoint so far"
        self._tell(
            f"checkpoint {name} could not be written: {why} ({free(self._run)} free); training goes on, {have}, and "
            "the next one is tried as usual"
        )
        log(self._run, "checkpoint failed", checkpoint=name, reason=why)


def steps_done(config: Config, group: int, stage: int, step: int) -> int:
    """Steps of the whole run: of all groups of seeds, and of all stages."""
    return group * sum(one.steps for one in config.stages) + sum(one.steps for one in config.stages[:stage]) + step


def newest_good(run: Path, fits: Callable[[Note], str], tell: Tell) -> Path | None:
    """The checkpoint to go on from; None if none was ever written.

    What is damaged or half written is named and set aside, and the one before is taken; where none is left, that is an
    error: whoever has lost days of work must not find out from a run that silently began anew.
    """
    folder = run / checkpoint.FOLDER
    for path in sorted(folder.glob(f"{checkpoint.GROWING}*")):
        tell(f"{path.name} was being written when the run ended: set aside as {checkpoint.set_aside(path).name}")
    for name in reversed(checkpoint.names(folder)):
        wrong = checkpoint.damage(folder / name) or fits(checkpoint.read_note(folder / name))
        if not wrong:
            _miss_the_newest(run, name, tell)
            return folder / name
        tell(f"checkpoint {name} is damaged ({wrong}): set aside as {checkpoint.set_aside(folder / name).name}")
    if (run / PROGRESS).exists() or any(folder.glob(f"{checkpoint.DAMAGED}{checkpoint.WHOLE}*")):
        raise ConfigError(
            f"no good checkpoint of {run} is left, so there is nothing to go on from; metapl train {run}/config.toml "
            "begins it again in another folder"
        )
    return None


def _miss_the_newest(run: Path, name: str, tell: Tell) -> None:
    """Someone may have removed it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = str(json.loads((run / PROGRESS).read_text("utf-8"))["checkpoint"])
        if newest > name and not any((run / checkpoint.FOLDER).glob(f"*{newest}*")):
            tell(f"checkpoint {newest}, which was the newest, is gone")


def progress_in(path: Path) -> tuple[Progress, Note]:
    """What the run had found when this checkpoint was written."""
    note, arrays = checkpoint.read_note(path), checkpoint.read_arrays(path)
    if note["format"] != FORMAT:
        raise ConfigError(
            f"{path} has format {note['format']}, this version reads {FORMAT}; go on with the one that wrote it"
        )
    confusions = {
        int(seed): counts.astype(np.int64) for seed, counts in zip(arrays["seeds"], arrays["counts"], strict=True)
    }
    history = [evaluation_from_json(row) for row in note["history"]]
    marks = Mark(**note["metrics"]), Mark(**note.get("pseudo_labels", {}))  # older ones have no labels
    return Progress(note["group"], history, confusions, *marks, note["seconds"]), note


def evaluation_to_json(evaluation: Evaluation) -> list[Any]:
    """Numbers as JSON has them, which it gives back to the last bit."""
    return [*evaluation[:3], list(evaluation.test), None if evaluation.val is None else list(evaluation.val)]


def evaluation_from_json(row: Sequence[Any]) -> Evaluation:
    """The way back."""
    seed, stage, step, test, val = row
    return Evaluation(seed, stage, step, Scores(*test), None if val is None else Scores(*val))


def log(run: Path, event: str, **more: Any) -> None:
    """Add a line to log.jsonl, which has the times; it tells what happened, and nothing depends on it."""
    if not processes.is_leader():
        return
    line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event} | more
    with suppress(OSError), (run / LOG).open("a", encoding="utf-8") as file:  # who writes what matters will tell
        file.write(json.dumps(line) + "\n")


def _arrays(confusions: Mapping[int, NDArray[np.int64]]) -> checkpoint.Arrays:
    counts = np.stack(list(confusions.values())) if confusions else np.zeros((0, 0, 0), np.int64)
    return {"seeds": np.array(list(confusions), np.int64), "counts": counts}


def _kept(path: Path) -> Note:
    """A checkpoint's note; one that cannot be read keeps nothing: whoever needs the checkpoint will say so."""
    try:
        return {"lasting": False, "ends_stage": False} | checkpoint.read_note(path)
    except (OSError, ValueError):
        return {"lasting": False, "ends_stage": False}
