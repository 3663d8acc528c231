"""One example's labels over time: a row for each class, filled while it is the label; darker means more certain."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metapl.system.escape import markup, shortened

WIDTH, LEFT, ROW, FOOT = 220, 74, 17, 18
MOST_ROWS = 5  # classes; rarer ones share the last row
OTHERS = -1


def timeline(
    path: NDArray[np.int64], sure: NDArray[np.float64], steps: Sequence[int], names: Sequence[str], truth: int
) -> str:
    """Draw the labels; the picture's caption says the same in words."""
    rows = _rows(path, truth)
    side = (WIDTH - LEFT) / len(path)
    height = ROW * len(rows) + FOOT
    parts = [f'<path class="grid" d="M{LEFT} {ROW * i + 0.5}H{WIDTH}"/>' for i in range(len(rows) + 1)]
    for i, row in enumerate(rows):
        kind = ' class="truth"' if row == truth else ""
        name = "others" if row == OTHERS else f"{shortened(names[row], 9)}{' ✓' if row == truth else ''}"
        parts.append(f'<text{kind} x="{LEFT - 5}" y="{ROW * i + 12.5}" text-anchor="end">{markup(name)}</text>')
    start = 0
    for label, same in itertools.groupby(path.tolist()):
        end = start + len(list(same))
        row = rows.index(label if label in rows else OTHERS)
        kind = "bar" if truth < 0 else "right" if label == truth else "wrong"
        spot = (
            f'x="{LEFT + start * side:.1f}" y="{ROW * row + 2}" width="{(end - start) * side:.1f}" height="{ROW - 3}"'
        )
        certain = float(sure[start:end].mean())
        tip = f"{markup(names[label])}, {100 * certain:.0f} % certain, up to step {steps[end - 1]:,}"
        parts.append(
            f'<rect class="{kind}" {spot} fill-opacity="{0.3 + 0.7 * certain:.2f}"><title>{tip}</title></rect>'
        )
        start = end
    foot = f'<text class="tick" x="{WIDTH}" y="{height - 5}" text-anchor="end">{steps[-1]:,} steps</text>'
    return f'<svg viewBox="0 0 {WIDTH} {height}" aria-hidden="true">{"".join(parts)}{foot}</svg>'


def _rows(path: NDArray[np.int64], truth: int) -> list[int]:
    """The classes that were its label longest, in order of appearance; the true class is always among them."""
    counts = np.bincount(path)
    known = [int(label) for label in np.argsort(-counts, kind="stable") if counts[label]]
    kept = set(known[:MOST_ROWS]) if len(known) <= MOST_ROWS else set(known[: MOST_ROWS - 1])
    in_order = list(dict.fromkeys(int(label) for label in path if int(label) in kept or label == truth))
    return [
        *in_order,
        *([truth] if truth >= 0 and truth not in in_order else []),
        *([OTHERS] if len(known) > MOST_ROWS else []),
    ]
