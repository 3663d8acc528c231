"""A confusion matrix of many classes, as a small picture: a mark for each pair would make the page large, not clear.

The picture is a PNG of few colours with transparency, so that it lies on a light page as on a dark one. Beyond `MOST`
classes, neighbours share a row and a column, which show the largest share among them: what is often confused stays
seen.
"""

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.report.blocks import Figure
from metapl.report.escape import markup, shortened
from metapl.report.svg import RIGHT, WIDTH, document

MOST = 100  # rows of the picture: a point of more could hardly be seen on a phone
NAMED = 8  # rows that have their name beside them
LETTERS = 12
LEFT, TOP = 96, 8
RIGHT_COLOUR, WRONG_COLOUR = (74, 134, 216), (217, 83, 74)  # seen on white and on black
LEVELS = 7  # shades of each; 0 is nothing


def large_matrix(title: str, description: str, counts: NDArray[np.int64], names: Sequence[str]) -> Figure:
    """Rows are what is right, columns what was answered; a stronger colour is more of the row."""
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    together = -(-len(names) // MOST)
    levels = _levels(_pooled(shares, together))
    side = WIDTH - LEFT - RIGHT
    href = f"data:image/png;base64,{base64.b64encode(_png(levels)).decode()}"
    box = f'x="{LEFT}" y="{TOP}" width="{side}" height="{side}"'
    drawn = f'<image {box} preserveAspectRatio="none" image-rendering="pixelated" href="{href}"/>'
    frame = f'<path class="axis" fill="none" d="M{LEFT} {TOP}h{side}v{side}h-{side}z"/>'
    height = TOP + side + 24
    told = f'<text class="tick" x="{LEFT}" y="{height - 8}">rows: the right class; columns: the answer</text>'
    pairs = f"; each point is the largest of {together}×{together} pairs" if together > 1 else ""
    said = f"{description} Blue on the diagonal is right, red is wrong; the stronger, the more of the class{pairs}."
    return Figure(title, said, document(title, said, height, [drawn, frame, *_names(names, side), told]))


def _pooled(shares: NDArray[np.float64], together: int) -> NDArray[np.float64]:
    """The largest of each block of so many classes each way."""
    if together == 1:
        return shares
    starts = np.arange(0, len(shares), together)
    return np.maximum.reduceat(np.maximum.reduceat(shares, starts, axis=0), starts, axis=1)


def _levels(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """1 to 7 for what is wrong, 8 to 14 for the diagonal; roots, so that what is rare is seen beside what is not."""
    levels = np.ceil(LEVELS * np.sqrt(shares)).astype(np.uint8)
    levels[np.diag_indices_from(levels)] += np.where(np.diag(levels) > 0, LEVELS, 0).astype(np.uint8)
    return levels


def _png(levels: NDArray[np.uint8]) -> bytes:
    image = Image.fromarray(levels, "P")
    image.putpalette([0, 0, 0, *WRONG_COLOUR * LEVELS, *RIGHT_COLOUR * LEVELS])
    shades = [round(255 * level / LEVELS) for level in range(1, LEVELS + 1)]
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, transparency=bytes([0, *shades, *shades]))
    return file.getvalue()


def _names(names: Sequence[str], side: int) -> list[str]:
    """Some of the classes, each beside its row."""
    shown = np.unique(np.linspace(0, len(names) - 1, NAMED).round().astype(int)).tolist()
    return [
        f'<text x="{LEFT - 5}" y="{TOP + (row + 0.5) / len(names) * side + 3.5:.1f}" font-size="11" '
        f'text-anchor="end">{markup(shortened(names[row], LETTERS))}</text>'
        for row in shown
    ]
