"""The page that follows runs: which version it is, and what stands on it.

Looking for changes is cheap and done all the time; the page is made when someone asks for it, once for each version.
A new version comes two seconds after the one before at the earliest, and later where pages take long to make, so that
watching leaves the machine to the run.
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
from metapl.report.metrics import Remembering
from metapl.report.read import Loaded, find
from metapl.runs.find import Run, look
from metapl.runs.status import Clock
from metapl.schema import ConfigError
from metapl.web.watch import looking, told

LOOK_S = 0.5  # between two looks
SHORTEST_S, LONGEST_S = 2.0, 30.0  # between two versions
SHARE = 0.04  # of a processor's time that making pages may take
QUIET_S = 3.0  # without anyone at work, and without a browser that has not got the last page yet: it is over
FIRST_VISIT_S = 60.0  # for someone to open the page of runs that had ended before
MOST_TOLD = 5  # runs whose end is told in a sentence each


class Made(NamedTuple):
    """One version of the page."""

    version: int
    title: str
    body: str


class Following:
    """Called from the main thread (`tick`) and from those of the server."""

    def __init__(self, places: Sequence[Path], now: Callable[[], float] = time.monotonic) -> None:
        self._places, self._now = places, now
        self._look = looking.look(places)
        self._worked = set(self._look.working)  # all that anyone was at work in since we look
        self.begun = self._has_begun()  # is, or was, there any run, or someone who makes one?
        self._version, self._closing, self._shown = 1, False, False
        self._looked = self._announced = self._quiet_since = now()
        self._pace = SHORTEST_S
        self._changed, self._making = threading.Condition(), threading.Lock()
        self._made: Made | None = None
        self._remembering, self._clocks = Remembering(), dict[tuple[Path, int], Clock]()

    @property
    def at_work(self) -> bool:
        """Is any process?"""
        return bool(self._look.working)

    def _has_begun(self) -> bool:
        return bool(self._look.files or self._look.working)

    def tick(self) -> None:
        """Look, if it is time, and count a new version if there is something new; an end is told at once."""
        now = self._now()
        if now - self._looked < LOOK_S:
            return
        self._looked, found = now, looking.look(self._places)
        if found == self._look:
            return
        ended = found.working != self._look.working
        if now - self._announced < self._pace and not ended:
            return
        with self._changed:
            self._look, self._announced, self._quiet_since = found, now, now
            self._worked |= found.working
            self.begun = self.begun or self._has_begun()
            self._version, self._shown = self._version + 1, False
            self._changed.notify_all()

    def is_over(self) -> bool:
        """Has everybody ended who was at work, and every open page been told?"""
        if self.at_work or not self.begun:
            return False
        patience = QUIET_S if self._worked or self._shown else FIRST_VISIT_S
        return self._now() - self._quiet_since > patience

    def close(self) -> None:
        """Let go of all who wait for a change."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def version(self, have: str, seconds: float) -> dict[str, object]:
        """The newest version, as soon as it is another one than `have`, or when the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or str(self._version) != have, seconds)
            if str(self._version) != have:
                self._quiet_since = self._now()  # it will ask for the page now
            return {"version": str(self._version), "closing": self._closing}

    def page(self) -> str:
        """The whole page."""
        made = self._make()
        return html.live_page(made.title, made.body, made.version)

    def body(self) -> str:
        """What stands on it."""
        return self._make().body

    def told(self) -> list[str]:
        """How all that was watched ended, in sentences."""
        return [text.text for text in self._endings(self._load())]

    def _make(self) -> Made:
        with self._making:
            version, begin, first = self._version, time.thread_time(), self._made is None
            if self._made is None or self._made.version != version:
                self._made = Made(version, self._title(), html.body(self._title(), self._blocks()))
                took = 0.0 if first else time.thread_time() - begin  # the first one reads all presets
                self._pace = min(LONGEST_S, max(SHORTEST_S, took / SHARE))
            self._shown, self._quiet_since = version == self._version, self._now()
            return self._made

    def _title(self) -> str:
        names = ", ".join(place.name or str(place) for place in self._places)
        return f"Watching {names}" if self.at_work or not self.begun else f"{names}: ended"

    def _load(self) -> list[Loaded]:
        try:
            return find([place for place in self._places if os.path.isdir(place)])
        except (ConfigError, OSError):  # gone between two lines
            return []

    def _blocks(self) -> list[Block]:
        now = self._now()
        loaded = [one for one in self._load() if one.run.path in self._look.files or one.run.path in self._look.working]
        blocks: list[Block] = [
            told.progress(one.name, one.run, self._clock(one.run, now), now) for one in loaded if one.run.pid
        ]
        if not self.begun:
            names = " or ".join(map(str, self._places))
            return [Text(f"No run has begun in {names} yet; it will be shown here.")]
        if not self.at_work:
            blocks += self._endings(loaded)
        elif not blocks:
            blocks.append(Text("A process is at work here, between two runs or before its first."))
        if not loaded:
            return blocks
        return [*blocks, *build(loaded, lambda _: [], self._remembering.read)[1]]

    def _clock(self, run: Run, now: float) -> Clock:
        """How fast it goes, from the moment on that it is watched."""
        done, total = run.steps or 0, run.total_steps or 0
        clock = self._clocks.setdefault((run.path, total), Clock(now, done, total))
        clock.update(now, done)
        return clock

    def _endings(self, loaded: Sequence[Loaded]) -> list[Text]:
        """Of those that were at work, or of all where nobody was."""
        names = {one.run.path: one.name for one in loaded}
        gone = [path for path in [*self._worked, *self._look.gone] if not os.path.isdir(path)]
        shown = [path for path in names if path in self._worked] or list(names)
        found = [told.ending(names[path], look(path)) for path in shown[:MOST_TOLD]]
        found += [Text(f"The folder {path} is gone.", "warning") for path in dict.fromkeys(gone)]
        if len(shown) > MOST_TOLD:
            found.append(Text(f"{len(shown) - MOST_TOLD} more have ended, too."))
        return found or [Text("Nobody is at work there any more.")]
