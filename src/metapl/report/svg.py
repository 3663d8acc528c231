"""Small vector drawings in the colours of the page, light or dark: line charts, and what all drawings share.

Every drawing is as wide as a phone, so that its letters can be read there; wider pages have several side by side. No
element has a style of its own: the page's policy does not allow that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.report.blocks import Figure
from metapl.system.escape import markup

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40
COLOURS = 6

Values = NDArray[np.float64]


class Line(NamedTuple):
    """One curve: its mean and, if it has one, its band; nan is a gap."""

    name: str
    x: Values
    middle: Values
    low: Values | None = None
    high: Values | None = None
    dots: bool = False


@dataclass(frozen=True)
class Axes:
    """The places of numbers in a drawing."""

    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    height: int = HEIGHT

    def left(self, value: Values) -> Values:
        """From an x to pixels."""
        low, high = self.x
        if self.log_x:
            value, low, high = np.log(value), math.log(low), math.log(high)
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def top(self, value: Values) -> Values:
        """From a y to pixels."""
        low, high = self.y
        return TOP + (high - value) / ((high - low) or 1) * (self.height - TOP - BOTTOM)


def thin(name: str, x: Values, values: Values, ends: tuple[float, float], columns: int) -> Line:
    """A line with at most one point for each column of the drawing: mean, smallest and largest value there."""
    share = (x - ends[0]) / ((ends[1] - ends[0]) or 1)
    column = np.clip((share * columns).astype(int), 0, columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    known = np.isfinite(values)
    count = np.add.reduceat(known, starts, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.add.reduceat(np.where(known, values, 0), starts) / count
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    sizes = np.diff(np.append(starts, len(x)))
    where = np.add.reduceat(x, starts) / sizes
    low, high = np.where(count > 0, low, np.nan), np.where(count > 0, high, np.nan)
    banded = bool(np.any(high > low))
    return Line(name, where, middle, low if banded else None, high if banded else None)


def line_chart(
    title: str,
    description: str,
    lines: Sequence[Line],
    labels: tuple[str, str],
    x: tuple[float, float] | None = None,
    y: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
    log_x: bool = False,
) -> Figure:
    """Curves over a common axis; `marks` are vertical lines where a stage ends."""
    axes = Axes(x or value_range([line.x for line in lines]), y or _padded(lines), log_x)
    parts = [*_grid(axes, labels), *_marks(axes, marks)]
    for number, line in enumerate(lines):
        parts += _curve(axes, line, number % COLOURS)
    return Figure(title, description, document(title, description, HEIGHT, parts) + _legend(lines))


def document(title: str, description: str, height: int, parts: Sequence[str]) -> str:
    """The drawing as SVG, with its title and description for people who cannot see it."""
    name = markup(f"{title}. {description}")
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 26 8" aria-hidden="true"><path class="c{i % COLOURS}" d="M0 4H26"/></svg> '
        f"{markup(line.name)}</li>"
        for i, line in enumerate(lines)
    )
    return f'<ul class="legend">{items}</ul>'


def _grid(axes: Axes, labels: tuple[str, str]) -> list[str]:
    bottom, parts = axes.height - BOTTOM, []
    for tick in ticks(*axes.y):
        y = float(axes.top(np.array(tick)))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{short(tick, axes.y)}</text>'
        )
    for tick in _log_ticks(*axes.x) if axes.log_x else ticks(*axes.x):
        x = float(axes.left(np.array(tick)))
        anchor = "end" if x > WIDTH - RIGHT - 12 else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 15}" text-anchor="{anchor}">{short(tick, axes.x)}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    spot = f'x="{middle:.0f}" y="{axes.height - 8}" text-anchor="middle"'
    parts.append(f'<text class="tick" {spot}>{markup(labels[0])}</text>')
    turn = f'transform="translate(11 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle"'
    parts.append(f'<text class="tick" {turn}>{markup(labels[1])}</text>')
    return parts


def _marks(axes: Axes, marks: Sequence[float]) -> list[str]:
    places = [float(axes.left(np.array(mark))) for mark in marks if axes.x[0] < mark < axes.x[1]]
    return [f'<path class="mark" d="M{x:.1f} {TOP}V{axes.height - BOTTOM}"/>' for x in places]


def _curve(axes: Axes, line: Line, colour: int) -> list[str]:
    parts, x, y = [], axes.left(line.x), axes.top(line.middle)
    if line.low is not None and line.high is not None:
        if line.dots:
            ends = zip(x, axes.top(line.low), axes.top(line.high), strict=True)
            path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends if math.isfinite(b))
            parts.append(f'<path class="c{colour} thin" d="{path}"/>')
        else:
            for piece in _pieces(line.middle):
                there, back = axes.top(line.high[piece]), axes.top(line.low[piece])[::-1]
                outline = np.concatenate([there, back])
                parts.append(f'<path class="b{colour}" d="{_path(np.append(x[piece], x[piece][::-1]), outline)}Z"/>')
    for piece in _pieces(line.middle):
        if piece.stop - piece.start > 1:
            parts.append(f'<path class="c{colour}" d="{_path(x[piece], y[piece])}"/>')
        if line.dots or piece.stop - piece.start == 1:
            spots = zip(x[piece], y[piece], strict=True)
            parts += [f'<circle class="f{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in spots]
    return parts


def _pieces(values: Values) -> list[slice]:
    """Slices of values without a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], np.isfinite(values), [False]]).astype(int)))
    return [slice(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _path(x: Values, y: Values) -> str:
    """A path of relative steps: shorter than absolute places, and a page has a million of them."""
    places = np.round(np.stack([x, y], 1), 1)
    steps = np.diff(places, axis=0)
    return f"M{places[0, 0]:g} {places[0, 1]:g}l" + " ".join(f"{a:.1f} {b:.1f}" for a, b in steps.tolist())


def value_range(values: Sequence[Values]) -> tuple[float, float]:
    """The smallest and the largest finite value; (0, 1) if there is none."""
    known = np.concatenate([series[np.isfinite(series)] for series in values]) if values else np.zeros(0)
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if low == high:
        return low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    return low, high


def _padded(lines: Sequence[Line]) -> tuple[float, float]:
    values = [line.middle for line in lines]
    values += [side for line in lines for side in (line.low, line.high) if side is not None]
    return wider(value_range(values))


def wider(ends: tuple[float, float]) -> tuple[float, float]:
    """A range with a little room at both ends."""
    low, high = ends
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two ends."""
    rough = (high - low) / about
    if not (rough > 0 and math.isfinite(rough)):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    round_numbers = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    return [tick for tick in round_numbers if low * 0.999 <= tick <= high * 1.001] or [low, high]


def short(tick: float, ends: tuple[float, float]) -> str:
    """A number for an axis: 100000 is 100k."""
    if abs(tick) < 1e-9 * max(map(abs, ends)):
        return "0"
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= power and max(map(abs, ends)) >= 10 * 1e3:
            return f"{tick / power:g}{letter}"
    return f"{tick:.6g}"
