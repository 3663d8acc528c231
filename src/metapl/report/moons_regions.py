"""Decision regions as outlines of the areas in which a class has at least some probability."""

import math
from collections.abc import Iterator
from typing import Any

import contourpy
import numpy as np
from numpy.typing import NDArray

WIDTH = 400  # units of a drawing, which are finer than a screen's pixels
PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the second class: the edges between six shades
NEAR = 0.7  # units: a corner closer than this to the straight line past it is left out
FEWEST = 8  # an outline with no more corners than this is not simplified
FAR = 50.0  # larger logits are cut to this one
OVER = 0.02  # share of the drawing by which outlines go over its edges, so that no line is drawn along the edges

Corners = NDArray[np.int64]  # [N, 2]


def height(box: NDArray[np.float32]) -> int:
    """The height of a drawing of a box, with units that are as long upwards as sideways."""
    wide, tall = (box[1] - box[0]).tolist()
    return round(WIDTH * tall / wide)


def place(points: NDArray[np.float32], box: NDArray[np.float32]) -> Corners:
    """Points of the plane as places in the drawing, whose y grows downwards."""
    x, y = ((points - box[0]) / (box[1] - box[0])).T
    return np.rint(np.stack([x * WIDTH, (1 - y) * height(box)], -1)).astype(np.int64)


def lattice(box: NDArray[np.float32], grid: int) -> NDArray[np.float32]:
    """Points of a grid over a box and a little more, row by row from below: [grid², 2]."""
    over = OVER * (box[1] - box[0])
    x, y = np.meshgrid(*np.linspace(box[0] - over, box[1] + over, grid, dtype=np.float32).T)
    return np.stack([x.ravel(), y.ravel()], -1)


def outlines(margins: NDArray[np.float32], tall: int) -> list[list[str]]:
    """Outlines of where the second class has at least each of PROBABILITIES, for each grid of [N, rows, columns].

    They are SVG paths, each inside the one before. All are simplified at once: one by one would take ten times as long.
    """
    areas = [list(area) for grid in margins for area in _areas(grid, tall)]
    rings = [ring for area in areas for ring in area]
    corners = np.rint(np.concatenate([np.zeros((0, 2)), *rings])).astype(np.int64)
    paths = map(_path, _split(*_straightened(corners, np.array([len(ring) for ring in rings], np.int64))))
    written = ["".join(next(paths) for _ in area) for area in areas]
    return [written[i : i + len(PROBABILITIES)] for i in range(0, len(written), len(PROBABILITIES))]


def _areas(margins: NDArray[np.float32], tall: int) -> Iterator[Iterator[NDArray[np.float64]]]:
    """The rings around each area, interpolated between logits, which change more evenly than probabilities."""
    x = np.linspace(-OVER * WIDTH, (1 + OVER) * WIDTH, margins.shape[1])
    y = np.linspace((1 + OVER) * tall, -OVER * tall, margins.shape[0])
    margins = np.clip(np.nan_to_num(margins), -FAR, FAR)
    # Any: contourpy types the result as what all its fill types have in common, which is nothing.
    contours: Any = contourpy.contour_generator(x, y, margins, fill_type=contourpy.FillType.OuterOffset)
    for share in PROBABILITIES:
        points, offsets = contours.filled(math.log(share / (1 - share)), 2 * FAR)
        yield (ring[:-1] for part, starts in zip(points, offsets, strict=True) for ring in np.split(part, starts[1:-1]))


def _straightened(corners: Corners, counts: NDArray[np.int64]) -> tuple[Corners, NDArray[np.int64]]:
    """Remove corners that are close to a straight line, only every second one at once, so that no two neighbours go."""
    while True:
        ring, number = np.repeat(np.arange(len(counts)), counts), np.arange(len(corners))
        first = (np.cumsum(counts) - counts)[ring]
        position, size = number - first, counts[ring]
        before, after = (corners[first + (position + step) % size] for step in (-1, 1))
        along, aside = after - before, corners - before
        area = np.abs(along[:, 0] * aside[:, 1] - along[:, 1] * aside[:, 0])
        dull = (area <= NEAR * np.hypot(*along.T)) & (position % 2 == 1) & (size > FEWEST)
        if not dull.any():
            return corners, counts
        corners, counts = corners[~dull], counts - np.bincount(ring[dull], minlength=len(counts))


def _split(corners: Corners, counts: NDArray[np.int64]) -> Iterator[Corners]:
    ends = np.cumsum(counts).tolist()
    return (corners[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True))


def _path(ring: Corners) -> str:
    """One closed outline as relative steps in whole units: short, because a page has ten thousand of them."""
    (x, y), steps = ring[0].tolist(), np.diff(ring, axis=0).tolist()
    return f"M{x} {y}l" + " ".join(f"{a}{b}" if b < 0 else f"{a} {b}" for a, b in steps) + "z"
