"""Drawings of bars, and of differences with their intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metapl.report.blocks import Figure
from metapl.report.svg import RIGHT, WIDTH, Axes, document, short, ticks, value_range, wider
from metapl.system.escape import markup, shortened


class Bar(NamedTuple):
    """One bar, with a whisker of ± spread or between two `ends`, and a text beside it."""

    name: str
    value: float
    spread: float = 0.0
    text: str = ""
    ends: tuple[float, float] | None = None


class Span(NamedTuple):
    """One difference and its interval; nan if it has none."""

    name: str
    against: str
    middle: float
    low: float = math.nan
    high: float = math.nan


def bars(title: str, description: str, shown: Sequence[Bar], most: float) -> Figure:
    """Bars from 0, each with its name above it, so that long names have room on a phone."""
    row, height = 36, 36 * len(shown) + 30
    parts = []
    full = WIDTH - 2 * RIGHT
    for number, bar in enumerate(shown):
        y, width = 8 + row * number, max(0.0, bar.value / most * full)
        parts.append(f'<text x="{RIGHT}" y="{y + 9}">{markup(shortened(bar.name, 44))}</text>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{y + 9}" text-anchor="end">{markup(bar.text)}</text>')
        parts.append(f'<rect class="track" x="{RIGHT}" y="{y + 14}" width="{full}" height="12"/>')
        parts.append(f'<rect class="bar" x="{RIGHT}" y="{y + 14}" width="{width:.1f}" height="12"/>')
        if bar.spread > 0 or bar.ends:
            low, high = (RIGHT + min(1.0, max(0.0, end / most)) * full for end in _whisker(bar))
            parts.append(f'<path class="whisker" d="M{low:.1f} {y + 20}H{high:.1f}M{low:.1f} {y + 16}v8M{high:.1f} ')
            parts[-1] += f'{y + 16}v8"/>'
    for share in (0, 0.25, 0.5, 0.75, 1):
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        spot = f'x="{RIGHT + share * full:.0f}" y="{height - 6}" text-anchor="{anchor}"'
        parts.append(f'<text class="tick" {spot}>{share * most:g}</text>')
    return Figure(title, description, document(title, description, height, parts))


def spans(title: str, description: str, shown: Sequence[Span]) -> Figure:
    """Differences with a vertical line at 0, each with its two names above it."""
    row, height = 54, 54 * len(shown) + 26
    values = np.array([[0.0, 0.0, 0.0], *(span[2:] for span in shown)])
    axes = Axes(wider(value_range([values.ravel()])), (0.0, 1.0))
    zero = float(axes.left(np.array(0.0)))
    parts = [f'<path class="axis" d="M{zero:.1f} 4V{height - 22}"/>']
    for number, span in enumerate(shown):
        y = 4 + row * number
        middle, low, high = axes.left(np.array(span[2:])).tolist()
        parts.append(f'<text x="{RIGHT}" y="{y + 11}">{markup(shortened(span.name, 48))}</text>')
        parts.append(f'<text class="tick" x="{RIGHT}" y="{y + 25}">{markup(shortened(span.against, 52))}</text>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{y + 11}" text-anchor="end">{span.middle:+.1f}</text>')
        if math.isfinite(low + high):
            parts.append(f'<path class="whisker" d="M{low:.1f} {y + 36}H{high:.1f}m0-4v8M{low:.1f} {y + 32}v8"/>')
        parts.append(f'<circle class="f0" cx="{middle:.1f}" cy="{y + 36}" r="4"/>')
    for tick in ticks(*axes.x):
        spot = f'x="{float(axes.left(np.array(tick))):.1f}" y="{height - 6}" text-anchor="middle"'
        parts.append(f'<text class="tick" {spot}>{short(tick, axes.x)}</text>')
    return Figure(title, description, document(title, description, height, parts))


def _whisker(bar: Bar) -> tuple[float, float]:
    return bar.ends or (bar.value - bar.spread, bar.value + bar.spread)
