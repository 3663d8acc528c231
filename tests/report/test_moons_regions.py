"""Outlines contain exactly the area in which the class is probable enough."""

import re

import numpy as np
import pytest
from matplotlib.path import Path

from metapl.report import moons_regions
from metapl.report.moons_regions import PROBABILITIES, WIDTH, lattice, outlines, place

TALL, GRID = 300, 40


def bumps(seed: int):
    """A smooth function with hills, hollows and holes."""
    x, y = np.meshgrid(np.linspace(0, 1, GRID), np.linspace(0, 1, GRID))
    waves = np.random.default_rng(seed).normal(size=(6, 4))
    return sum(2 * a * np.sin(9 * b * x + 9 * c * y + 6 * d) for a, b, c, d in waves).astype(np.float32)


def inside(path: str, points):
    """Whether points are inside, by the even-odd rule that the page uses."""
    found = np.zeros(len(points), bool)
    for x, y, rest in re.findall(r"M(-?\d+) (-?\d+)l([^z]*)z", path):
        steps = np.array(re.findall(r"-?\d+", rest), int).reshape(-1, 2)
        corners = np.concatenate([[[int(x), int(y)]], steps]).cumsum(0)
        found ^= Path([*corners, corners[0]]).contains_points(points)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_outlines_contain_what_is_probable_enough(seed):
    grids = np.stack([bumps(seed), bumps(seed + 10)])
    box = np.array([[0, 0], [WIDTH / 100, TALL / 100]], np.float32)
    points = place(lattice(box, GRID), box).astype(float)
    for grid, paths in zip(grids, outlines(grids, TALL), strict=True):
        steepest = np.hypot(*np.gradient(grid)) * GRID / TALL  # how much the function changes in one unit
        for share, path in zip(PROBABILITIES, paths, strict=True):
            edge = np.log(share / (1 - share))
            # Within two units of an edge a point may be on either side; points outside the drawing are not visible.
            clear = (np.abs(grid - edge) > 2 * steepest + 0.02).ravel()
            clear &= ((points > 1) & (points < [WIDTH - 1, TALL - 1])).all(-1)
            assert clear.mean() > 0.7
            assert np.array_equal(inside(path, points)[clear], (grid > edge).ravel()[clear])


def test_a_constant_probability_gives_all_or_nothing():
    everywhere, nowhere, even = outlines(np.stack([np.full((9, 9), 1e6), np.full((9, 9), -1e6), np.zeros((9, 9))]), 200)
    assert nowhere == [""] * 5
    middle = np.array([[200.0, 100.0]])
    assert all(inside(path, middle) for path in everywhere)
    assert [bool(inside(path, middle)) for path in even if path] == [True] * sum(map(bool, even))
    assert even[3:] == ["", ""]


def test_nan_is_drawn_as_undecided():
    grid = np.full((1, 9, 9), np.nan, np.float32)
    (paths,) = outlines(grid, 200)
    assert all(paths[:2])
    assert paths[3:] == ["", ""]
    assert outlines(np.zeros((0, 9, 9), np.float32), 200) == []


def test_straight_edges_have_few_corners():
    x = np.tile(np.linspace(-3, 3, GRID), (GRID, 1))
    (paths,) = outlines(x[None].astype(np.float32), TALL)
    assert max(len(path) for path in paths) < 80


def test_the_drawing_is_the_plane_upside_down_and_as_wide_as_high():
    box = np.array([[-2, -1], [2, 1]], np.float32)
    assert moons_regions.height(box) == WIDTH // 2
    points = np.array([[-2, -1], [2, 1], [0, 0.5]], np.float32)
    assert moons_regions.place(points, box).tolist() == [[0, 200], [400, 0], [200, 50]]
