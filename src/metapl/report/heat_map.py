"""A confusion matrix of few classes, with the number in each cell."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metapl.report.blocks import Figure
from metapl.report.svg import RIGHT, WIDTH, document
from metapl.system.escape import markup, shortened


def heat_map(title: str, description: str, counts: NDArray[np.int64], names: Sequence[str]) -> Figure:
    """Rows are true classes, columns predicted classes; darker is a larger share of the row."""
    classes = len(names)
    left, top, letters = 96, 84, 12
    side = (WIDTH - left - RIGHT) / classes
    size = min(11.0, side * 0.8)
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    parts = []
    for i, name in enumerate(names):
        short, middle = markup(shortened(name, letters)), top + (i + 0.5) * side
        parts.append(
            f'<text x="{left - 5}" y="{middle + 3.5:.1f}" font-size="{size:.1f}" text-anchor="end">{short}</text>'
        )
        x = left + (i + 0.5) * side
        turn = f'transform="translate({x + 3:.1f} {top - 5}) rotate(-60)"'
        parts.append(f'<text {turn} font-size="{size:.1f}">{short}</text>')
    for (i, j), count in np.ndenumerate(counts):
        x, y, share = left + j * side, top + i * side, shares[i, j]
        kind = "right" if i == j else "wrong"
        spot = f'x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"'
        if count:
            tip = f"<title>{markup(names[i])} → {markup(names[j])}: {count:,} ({100 * share:.1f} %)</title>"
            parts.append(f'<rect class="{kind}" {spot} fill-opacity="{0.12 + 0.88 * share:.2f}">{tip}</rect>')
            if classes <= 10:
                ink = "ink" if share > 0.5 else "cell"
                place = f'x="{x + side / 2:.1f}" y="{y + side / 2 + 3.5:.1f}" text-anchor="middle"'
                parts.append(f'<text class="{ink}" {place} font-size="9">{count}</text>')
    height = int(top + classes * side + 24)
    parts.append(f'<text class="tick" x="{left}" y="{height - 6}">rows: true class; columns: predicted class</text>')
    return Figure(title, description, document(title, description, height, parts))
