"""TensorBoard, by tensorboardX: RUN/tensorboard, with a folder for each seed if there are several, and their mean.

The events are written at once, not by tensorboardX's thread: an error there (a full disk) would go unnoticed, and the
loop would wait forever at the full queue.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metapl.runs.sinks.series import Session, mean_name, series
from metapl.types import Numbers


class TensorBoard:
    """One writer for each folder."""

    def __init__(self, session: Session) -> None:
        self._seeds = session.seeds
        root = session.folder / "tensorboard"
        folders: dict[int | None, Path] = {seed: root / f"seed-{seed}" for seed in session.seeds}  # None: the mean
        if session.alone:
            folders = {None: root}
        elif len(session.seeds) > 1:
            folders[None] = root / mean_name(session.seeds)
        self._writers = {seed: _Writer(folder, session.done) for seed, folder in folders.items()}

    def write(self, step: int, numbers: Numbers) -> None:
        curves = series(numbers)
        for seed, writer in self._writers.items():
            rows = slice(None) if seed is None else [self._seeds.index(seed)]
            writer.write(step, {name: float(np.mean(values[rows])) for name, values in curves.items()})

    def flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def close(self, failed: bool) -> None:
        del failed  # TensorBoard has no notion of it
        for writer in self._writers.values():
            writer.close()


class _Writer:
    """One event file."""

    def __init__(self, folder: Path, done: int) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        again = folder.is_dir() and any(folder.glob("events.*"))
        folder.mkdir(parents=True, exist_ok=True)
        # tensorboardX names files by the second, and would overwrite the file of a session shorter than that.
        self._file = EventsWriter(str(folder / "events"), f".{os.getpid()}.{time.time_ns() % 10**9}")
        self._event: Any = Event
        if again:  # makes TensorBoard drop the steps in earlier files that will come again
            self._write(Event(step=done + 1, session_log=SessionLog(status=SessionLog.START)))
        self.flush()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._write(self._event(step=step, summary=summary))

    def _write(self, event: Any) -> None:
        event.wall_time = time.time()
        self._file.write_event(event)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
