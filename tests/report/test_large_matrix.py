"""The confusion matrix of many classes is a small picture with the right points."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from metapl.report.large_matrix import RIGHT_COLOUR, WRONG_COLOUR, large_matrix


def drawn(counts: NDArray[np.int64], names: list[str] | None = None) -> tuple[NDArray[np.uint8], str]:
    """The pixels as RGBA, and the drawing around them."""
    svg = large_matrix("title", "description.", counts, names or [f"class {i}" for i in range(len(counts))]).svg
    (data,) = re.findall(r"base64,([^\"]*)", svg)
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return np.asarray(image.convert("RGBA")), svg


def test_every_pair_has_its_point():
    counts = 3 * np.eye(30, dtype=np.int64)
    counts[4, 7], counts[5] = 2, 0
    pixels, _ = drawn(counts)
    assert pixels.shape == (30, 30, 4)
    assert np.argwhere(pixels[..., 3]).tolist() == sorted([[i, i] for i in range(30) if i != 5] + [[4, 7]])
    assert tuple(pixels[3, 3]) == (*RIGHT_COLOUR, 255)
    assert tuple(pixels[4, 7, :3]) == WRONG_COLOUR
    assert 0 < pixels[4, 7, 3] < pixels[4, 4, 3] < 255


@pytest.mark.parametrize(("classes", "rows"), [(100, 100), (101, 51), (1000, 100)])
def test_neighbours_share_a_point_that_shows_the_largest_of_them(classes, rows):
    counts = np.eye(classes, dtype=np.int64)
    counts[classes - 1] = 0
    counts[classes - 1, 0] = 1
    pixels, svg = drawn(counts)
    assert pixels.shape == (rows, rows, 4)
    assert [pixels[0, 0, 3], pixels[0, rows - 1, 3]] == [255, 0]
    assert tuple(pixels[rows - 1, 0]) == (*WRONG_COLOUR, 255)
    assert ("the largest of" in svg) == (classes > 100)


def test_a_thousand_classes_take_few_bytes():
    counts = np.random.default_rng(0).pareto(0.5, (1000, 1000)).astype(np.int64) % 1_000_000
    assert len(drawn(counts)[1]) < 10_000


def test_names_are_escaped_and_mark_the_first_and_the_last_class():
    names = ['<script>"', *(f"class {i}" for i in range(38)), "last"]
    _, svg = drawn(np.eye(40, dtype=np.int64), names)
    texts = [text.text for text in ElementTree.fromstring(svg).iter("text")]
    assert [texts[0], texts[-2]] == ['<script>"', "last"]
