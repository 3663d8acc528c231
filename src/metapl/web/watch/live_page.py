"""The page that follows runs: the number of its version, and its content.

Scanning for changes is cheap and happens all the time. The page is made when a browser asks for it, once for each
version. A new version comes at least two seconds after the last one, and later if pages take long to make, so that
watching does not slow the run down.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from metapl.report import html
from metapl.report.blocks import Block, Text
from metapl.report.build import build
from metapl.report.metrics import CachedReader
from metapl.report.read import ReportedRun, read_runs
from metapl.runs.find import Run, read_run
from metapl.runs.status import SpeedClock
from metapl.schema import ConfigError
from metapl.web.watch import sentences
from metapl.web.watch.scan import scan

SCAN_S = 0.5  # between two scans
SHORTEST_S, LONGEST_S = 2.0, 30.0  # between two versions
SHARE = 0.04  # of a processor's time that making pages may take
QUIET_S = 3.0  # watching ends if for so long no process works and no browser has fetched a page
FIRST_VISIT_S = 60.0  # for someone to open the page, if all runs had ended before
MOST_ENDINGS = 5  # runs whose end gets a sentence each


class Version(NamedTuple):
    """One version of the page."""

    version: int
    title: str
    body: str


class LivePage:
    """The main thread calls `tick`; the server's threads ask for the page and its version."""

    def __init__(self, places: Sequence[Path], now: Callable[[], float] = time.monotonic) -> None:
        self._places, self._now = places, now
        self._scan = scan(places)
        self._worked = set(self._scan.working)  # every folder in which a process has worked since the first scan
        self.begun = self._has_begun()  # has there been any run, or a process that makes one?
        self._version, self._closing, self._shown = 1, False, False
        self._scanned = self._announced = self._quiet_since = now()
        self._pace = SHORTEST_S
        self._changed, self._making = threading.Condition(), threading.Lock()
        self._made: Version | None = None
        self._reader, self._clocks = CachedReader(), dict[tuple[Path, int], SpeedClock]()

    @property
    def at_work(self) -> bool:
        """Whether any process works in the folders."""
        return bool(self._scan.working)

    def _has_begun(self) -> bool:
        return bool(self._scan.files or self._scan.working)

    def tick(self) -> None:
        """Scan, if it is time, and count a new version if something changed; a run's end counts at once."""
        now = self._now()
        if now - self._scanned < SCAN_S:
            return
        self._scanned, latest = now, scan(self._places)
        if latest == self._scan:
            return
        ended = latest.working != self._scan.working
        if now - self._announced < self._pace and not ended:
            return
        with self._changed:
            self._scan, self._announced, self._quiet_since = latest, now, now
            self._worked |= latest.working
            self.begun = self.begun or self._has_begun()
            self._version, self._shown = self._version + 1, False
            self._changed.notify_all()

    def is_over(self) -> bool:
        """Whether all runs have ended and every open page shows that; never while a page is being made."""
        if self.at_work or not self.begun or self._making.locked():
            return False
        longest = QUIET_S if self._worked or self._shown else FIRST_VISIT_S
        return self._now() - self._quiet_since > longest

    def close(self) -> None:
        """Answer all requests that wait for a change: there will be none."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def version(self, have: str, seconds: float) -> dict[str, object]:
        """The newest version, as soon as it differs from `have`, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or str(self._version) != have, seconds)
            if str(self._version) != have:
                self._quiet_since = self._now()  # the browser will ask for the page now
            return {"version": str(self._version), "closing": self._closing}

    def page(self) -> str:
        """The whole page."""
        made = self._make()
        return html.live_page(made.title, made.body, made.version)

    def body(self) -> str:
        """The content of the page."""
        return self._make().body

    def endings(self) -> list[str]:
        """How all watched runs ended, in sentences."""
        return [text.text for text in self._endings(self._load())]

    def _make(self) -> Version:
        with self._making:
            version, begin, first = self._version, time.thread_time(), self._made is None
            if self._made is None or self._made.version != version:
                self._made = Version(version, self._title(), html.body(self._title(), self._blocks()))
                took = 0.0 if first else time.thread_time() - begin  # the first one reads all presets
                self._pace = min(LONGEST_S, max(SHORTEST_S, took / SHARE))
            self._shown, self._quiet_since = version == self._version, self._now()
            return self._made

    def _title(self) -> str:
        names = ", ".join(place.name or str(place) for place in self._places)
        return f"Watching {names}" if self.at_work or not self.begun else f"{names}: ended"

    def _load(self) -> list[ReportedRun]:
        try:
            return read_runs([place for place in self._places if os.path.isdir(place)])
        except (ConfigError, OSError):  # deleted a moment ago
            return []

    def _blocks(self) -> list[Block]:
        now = self._now()
        known = {*self._scan.files, *self._scan.working}
        loaded = [reported for reported in self._load() if reported.run.path in known]
        blocks: list[Block] = [
            sentences.progress(reported.name, reported.run, self._clock(reported.run, now), now)
            for reported in loaded
            if reported.run.pid
        ]
        if not self.begun:
            names = " or ".join(map(str, self._places))
            return [Text(f"No run has started in {names} yet. This page will show it.")]
        if not self.at_work:
            blocks += self._endings(loaded)
        elif not blocks:
            blocks.append(Text("A process is working here, between two runs or before the first one."))
        if not loaded:
            return blocks
        return [*blocks, *build(loaded, lambda _: [], self._reader.read)[1]]

    def _clock(self, run: Run, now: float) -> SpeedClock:
        """The run's speed since it is watched."""
        done, total = run.steps or 0, run.total_steps or 0
        clock = self._clocks.setdefault((run.path, total), SpeedClock(now, done, total))
        clock.update(now, done)
        return clock

    def _endings(self, loaded: Sequence[ReportedRun]) -> list[Text]:
        """Sentences about the runs that were running while watched, or about all if none was."""
        names = {reported.run.path: reported.name for reported in loaded}
        gone = [path for path in [*self._worked, *self._scan.gone] if not os.path.isdir(path)]
        shown = [path for path in names if path in self._worked] or list(names)
        endings = [sentences.ending(names[path], read_run(path)) for path in shown[:MOST_ENDINGS]]
        endings += [Text(f"The folder {path} no longer exists.", "warning") for path in dict.fromkeys(gone)]
        if len(shown) > MOST_ENDINGS:
            endings.append(Text(f"{len(shown) - MOST_ENDINGS} more have ended, too."))
        return endings or [Text("No process is working there any more.")]
