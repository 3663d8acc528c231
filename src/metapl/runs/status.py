"""One line about a running training: its progress, speed, time left and main numbers."""

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.metrics import on_status_line
from metapl.types import Numbers

RATE_OVER = 10  # reports: enough to be steady, few enough to follow a stage that is slower than the one before
SHORTEST_S = 1.0  # reports that come together after a wait say nothing about the rate


class SpeedClock:
    """The speed of this session: earlier sessions do not count, nor does the time to compile the first steps."""

    def __init__(self, now: float, done: int, total: int) -> None:
        self._begin, self._total = (now, done), total
        self._seen: deque[tuple[float, int]] = deque(maxlen=RATE_OVER)

    def update(self, now: float, done: int) -> None:
        """Note how many steps are done."""
        self._seen.append((now, done))

    def elapsed(self, now: float) -> float:
        """Seconds since the session began."""
        return now - self._begin[0]

    @property
    def rate(self) -> float | None:
        """Steps per second; None before the first report."""
        if not self._seen:
            return None
        short = self._seen[-1][0] - self._seen[0][0] < SHORTEST_S
        first = self._begin if short else self._seen[0]
        seconds, steps = self._seen[-1][0] - first[0], self._seen[-1][1] - first[1]
        return steps / seconds if seconds > 0 and steps > 0 else None

    def left(self, now: float) -> float | None:
        """Seconds until the end; between two reports they go down with the clock."""
        if not self._seen or self.rate is None:
            return None
        at, done = self._seen[-1]
        return max(0.0, (self._total - done) / self.rate - (now - at))


def duration(seconds: float) -> str:
    """Format seconds: 0:07, 12:34, 3:02:01; a day or more as 2d 03:04."""
    rounded = math.ceil(seconds)
    minutes, hours, days = rounded // 60 % 60, rounded // 3600 % 24, rounded // 86400
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{rounded % 60:02}" if hours else f"{minutes}:{rounded % 60:02}"


def speed(rate: float, unit: str) -> str:
    """Format a speed as steps per second, or as seconds per step if below 1; without a unit it is shorter."""
    if rate >= 1:
        return f"{rate:,.0f} {unit}/s".replace(" /", "/") if rate >= 10 else f"{rate:.1f} {unit}/s".replace(" /", "/")
    return f"{1 / rate:.1f} s/{unit.removesuffix('s') or 'step'}"


def brief(values: NDArray[np.float32]) -> str:
    """The mean over seeds; of a histogram, the share of the most frequent class."""
    if values.ndim > 1:
        return f"max {np.mean(np.max(values, axis=-1)):.3g}"
    return f"{np.mean(values):.3g}"


def main_numbers(numbers: Numbers) -> list[str]:
    """The main numbers in few letters, the most important first."""
    short_names = on_status_line()
    shown = {name: values for name, values in numbers.items() if name in short_names}
    percent = {name: f"{100 * np.mean(values):.1f}%" for name, values in shown.items() if name.endswith("_accuracy")}
    return [f"{short} {percent.get(name, brief(shown[name]))}" for name, short in short_names.items() if name in shown]


class Segment(NamedTuple):
    """A part of a line."""

    text: str
    priority: int  # 0 is the most important


def fit(segments: Collection[Segment], width: int) -> str:
    """Join the segments that fit, in their order; the most important are tried first."""
    kept: set[Segment] = set()
    for segment in sorted(segments, key=lambda segment: segment.priority):
        if len(_joined(segments, kept | {segment})) <= width:
            kept.add(segment)
    return _joined(segments, kept)


def _joined(segments: Collection[Segment], kept: set[Segment]) -> str:
    return "  ".join(segment.text for segment in segments if segment in kept)


def shorten(text: str, width: int) -> str:
    """Cut a text to this width."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


class Status:
    """What is known about one training's progress, as a line of the segments that fit."""

    def __init__(self, now: float, done: int, total: int, unit: str) -> None:
        self.done, self.total, self.unit = done, total, unit
        self.clock = SpeedClock(now, done, total)
        self._latest: dict[str, NDArray[np.float32]] = {}

    def update(self, now: float, done: int, numbers: Numbers) -> None:
        """Take the next report; numbers that it lacks, such as the last evaluation, keep their values."""
        self.done = done
        self.clock.update(now, done)
        self._latest |= numbers

    def line(self, now: float, width: int) -> str:
        """Counts, rate, time and the main numbers, on a line of this width."""
        rate, left, elapsed = self.clock.rate, self.clock.left(now), duration(self.clock.elapsed(now))
        if self.done == self.total:
            time = f"in {elapsed}"
        else:
            time = f"starting, {elapsed}" if left is None else f"{duration(left)} left"
        segments = [Segment(f"{self.done:,}/{self.total:,}", 0), Segment(time, 1)]
        if rate is not None:
            segments.append(Segment(speed(rate, ""), 5))
        for i, text in enumerate(main_numbers(self._latest)):
            segments.append(Segment(text, (2, 3, 4)[i] if i < 3 else 3 + i))
        return fit(segments, width)


def sentence(title: str, status: Status, now: float, per_step: int, numbers: Numbers, skip: Sequence[str]) -> str:
    """The same as a full sentence for a log, with every number but those whose names begin with `skip`."""
    parts = [f"{title}: {status.done:,} of {status.total:,} {status.unit}", f"{status.clock.elapsed(now):.0f} s"]
    if (rate := status.clock.rate) is not None:
        parts.append(speed(rate, status.unit))
        if per_step > 1:
            parts.append(speed(rate * per_step, "examples"))
        if (left := status.clock.left(now)) is not None and status.done < status.total:
            parts.append(f"{duration(left)} left")
    shown = sorted(name for name in numbers if not name.startswith(tuple(skip)))
    return ", ".join([*parts, *(f"{name} {brief(numbers[name])}" for name in shown)])
