"""A confusion matrix of many classes, as a small picture: a mark for each pair would make the page large and unclear.

The picture is a PNG with few colours and transparency, for light and dark pages. With more than `MOST` classes,
neighbours share a row and a column, which show the largest share among them, so that frequent mistakes stay visible.
"""

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.report.blocks import Figure
from metapl.report.svg import RIGHT, WIDTH, document
from metapl.system.escape import markup, shortened

MOST = 100  # rows of the picture; with more, points would be too small on a phone
NAMED = 8  # rows that have a name
LETTERS = 12
LEFT, TOP = 96, 8
RIGHT_COLOUR, WRONG_COLOUR = (74, 134, 216), (217, 83, 74)  # seen on white and on black
LEVELS = 7  # shades of each colour; 0 is transparent


def large_matrix(title: str, description: str, counts: NDArray[np.int64], names: Sequence[str]) -> Figure:
    """Rows are true classes, columns predicted classes; a stronger colour is a larger share of the row."""
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    together = -(-len(names) // MOST)
    levels = _levels(_pooled(shares, together))
    side = WIDTH - LEFT - RIGHT
    href = f"data:image/png;base64,{base64.b64encode(_png(levels)).decode()}"
    box = f'x="{LEFT}" y="{TOP}" width="{side}" height="{side}"'
    drawn = f'<image {box} preserveAspectRatio="none" image-rendering="pixelated" href="{href}"/>'
    frame = f'<path class="axis" fill="none" d="M{LEFT} {TOP}h{side}v{side}h-{side}z"/>'
    height = TOP + side + 24
    legend = f'<text class="tick" x="{LEFT}" y="{height - 8}">rows: true class; columns: predicted class</text>'
    pairs = f"; each point is the largest of {together}×{together} pairs" if together > 1 else ""
    description += f" Blue on the diagonal is right, red is wrong; stronger means a larger share of the class{pairs}."
    parts = [drawn, frame, *_names(names, side), legend]
    return Figure(title, description, document(title, description, height, parts))


def _pooled(shares: NDArray[np.float64], together: int) -> NDArray[np.float64]:
    """The largest value of each block of `together` rows and columns."""
    if together == 1:
        return shares
    starts = np.arange(0, len(shares), together)
    return np.maximum.reduceat(np.maximum.reduceat(shares, starts, axis=0), starts, axis=1)


def _levels(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """1 to 7 for mistakes, 8 to 14 for the diagonal; square roots, so that rare mistakes are visible, too."""
    levels = np.ceil(LEVELS * np.sqrt(shares)).astype(np.uint8)
    levels[np.diag_indices_from(levels)] += np.where(np.diag(levels) > 0, LEVELS, 0).astype(np.uint8)
    return levels


def _png(levels: NDArray[np.uint8]) -> bytes:
    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    image.putpalette([0, 0, 0, *WRONG_COLOUR * LEVELS, *RIGHT_COLOUR * LEVELS])
    shades = [round(255 * level / LEVELS) for level in range(1, LEVELS + 1)]
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, transparency=bytes([0, *shades, *shades]))
    return file.getvalue()


def _names(names: Sequence[str], side: int) -> list[str]:
    """Names of some classes, each beside its row."""
    shown = np.unique(np.linspace(0, len(names) - 1, NAMED).round().astype(int)).tolist()
    return [
        f'<text x="{LEFT - 5}" y="{TOP + (row + 0.5) / len(names) * side + 3.5:.1f}" font-size="11" '
        f'text-anchor="end">{markup(shortened(names[row], LETTERS))}</text>'
        for row in shown
    ]
