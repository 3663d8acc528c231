"""What one line says of a run: how far it is, how fast, how long it will take, and its main numbers."""

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.metrics import on_status_line
from metapl.types import Numbers

RATE_OVER = 10  # reports: enough to be steady, few enough to follow a stage that is slower than the one before
SHORTEST_S = 1.0  # reports that come at once, since someone waited, say nothing of the rate


class Clock:
    """How fast a session goes: steps of a session before do not count, nor what it takes to compile the first ones."""

    def __init__(self, now: float, done: int, total: int) -> None:
        self._begin, self._total = (now, done), total
        self._seen: deque[tuple[float, int]] = deque(maxlen=RATE_OVER)

    def update(self, now: float, done: int) -> None:
        """Note that so many are done."""
        self._seen.append((now, done))

    def elapsed(self, now: float) -> float:
        """Seconds since the session began."""
        return now - self._begin[0]

    @property
    def rate(self) -> float | None:
        """Steps per second; None before there is a report."""
        if not self._seen:
            return None
        short = self._seen[-1][0] - self._seen[0][0] < SHORTEST_S
        first = self._begin if short else self._seen[0]
        seconds, steps = self._seen[-1][0] - first[0], self._seen[-1][1] - first[1]
        return steps / seconds if seconds > 0 and steps > 0 else None

    def left(self, now: float) -> float | None:
        """Seconds until the end; between two reports the clock runs on."""
        if not self._seen or self.rate is None:
            return None
        at, done = self._seen[-1]
        return max(0.0, (self._total - done) / self.rate - (now - at))


def duration(seconds: float) -> str:
    """0:07, 12:34, 3:02:01; from a day on 2d 03:04."""
    whole = math.ceil(seconds)
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def speed(rate: float, unit: str) -> str:
    """So many steps a second; where one takes longer, seconds a step. Without a unit, in few letters."""
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


class Piece(NamedTuple):
    """A part of a line."""

    text: str
    needed: int  # the smaller, the more


def fit(pieces: Collection[Piece], width: int) -> str:
    """As many pieces as there is room for, in their order: what is needed most chooses first."""
    kept: set[Piece] = set()
    for piece in sorted(pieces, key=lambda piece: piece.needed):
        if len(_joined(pieces, kept | {piece})) <= width:
            kept.add(piece)
    return _joined(pieces, kept)


def _joined(pieces: Collection[Piece], kept: set[Piece]) -> str:
    return "  ".join(piece.text for piece in pieces if piece in kept)


def shorten(text: str, width: int) -> str:
    """Cut a text that has no room."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


class Status:
    """What is known of one run's way: shown as a line of pieces, as far as they fit."""

    def __init__(self, now: float, done: int, total: int, unit: str) -> None:
        self.done, self.total, self.unit = done, total, unit
        self.clock = Clock(now, done, total)
        self._latest: dict[str, NDArray[np.float32]] = {}

    def update(self, now: float, done: int, numbers: Numbers) -> None:
        """Take the next report; what it does not say stays as it was, such as the last evaluation."""
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
        pieces = [Piece(f"{self.done:,}/{self.total:,}", 0), Piece(time, 1)]
        if rate is not None:
            pieces.append(Piece(speed(rate, ""), 5))
        pieces += [Piece(text, (2, 3, 4)[i] if i < 3 else 3 + i) for i, text in enumerate(main_numbers(self._latest))]
        return fit(pieces, width)


def sentence(title: str, status: Status, now: float, per_step: int, numbers: Numbers, skip: Sequence[str]) -> str:
    """Say the same, in full, for a log: every number but those whose names begin with `skip`."""
    parts = [f"{title}: {status.done:,} of {status.total:,} {status.unit}", f"{status.clock.elapsed(now):.0f} s"]
    if (rate := status.clock.rate) is not None:
        parts.append(speed(rate, status.unit))
        if per_step > 1:
            parts.append(speed(rate * per_step, "examples"))
        if (left := status.clock.left(now)) is not None and status.done < status.total:
            parts.append(f"{duration(left)} left")
    shown = sorted(name for name in numbers if not name.startswith(tuple(skip)))
    return ", ".join([*parts, *(f"{name} {brief(numbers[name])}" for name in shown)])
