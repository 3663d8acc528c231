"""A contact sheet: rows of pictures with their weak and strong views, to look at before training."""

from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from metapl.augment import views
from metapl.augment.strong import distort
from metapl.augment.views import Augmentation

Pictures = NDArray[np.uint8]

CELL = 64  # tiny pictures are enlarged to at least this many pixels
GAP, MARGIN = 4, 12
BETWEEN_GROUPS = 16
FONT_SIZE = 13
PAPER, INK = (255, 255, 255), (40, 40, 40)


def show(
    originals: Pictures, names: Sequence[str], config: Augmentation, path: Path, columns: int = 4, seed: int = 0
) -> None:
    """Draw the pictures with `columns` weak and as many strong views of each."""
    weak, strong = make_views(config, originals, columns, seed)
    draw(originals, weak, strong, names, path)


def classes_in_turn(labels: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Indices of the first example of each class, then of the second, and so on, `count` in all."""
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], labels[order])
    turn = np.empty(len(labels), np.int64)
    turn[order] = np.arange(len(labels)) - first  # how many examples of the same class come before it
    return np.lexsort((labels, turn))[:count]


def make_views(config: Augmentation, pictures: Pictures, count: int, seed: int) -> tuple[Pictures, Pictures]:
    """Make `count` weak views of each picture, and the strong view of each of these: both uint8 [n, count, H, W, C]."""

    def pair(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        weak_key, strong_key = jax.random.split(key)
        weak = views.weak(config, jnp.asarray(pictures), weak_key)
        return weak, distort(config.strong, weak, strong_key)

    weak, strong = jax.jit(jax.vmap(pair, out_axes=1))(jax.random.split(jax.random.key(seed), count))
    return np.asarray(weak), np.asarray(strong)


def draw(originals: Pictures, weak: Pictures, strong: Pictures, names: Sequence[str], path: Path) -> None:
    """Write a PNG with a row for each picture: its name, the picture, its weak views, its strong views.

    `originals` are [n, H, W, C], `weak` and `strong` [n, views, h, w, C]. A strong view has the same position in its
    group as the weak view that it was made from.
    """
    font = ImageFont.load_default(FONT_SIZE)
    groups = {"picture": originals[:, None], "weak views": weak, "strong views": strong}
    cell = max(max(_enlarged_size(group)) for group in groups.values())
    names_width = int(max(font.getlength(name) for name in (*names, "")))
    head = MARGIN + FONT_SIZE + 2 * GAP
    lefts = _left_edges([group.shape[1] for group in groups.values()], 2 * MARGIN + names_width, cell)
    sheet = Image.new(
        "RGB", (lefts.pop() - BETWEEN_GROUPS + MARGIN, head + len(originals) * (cell + GAP) + MARGIN), PAPER
    )
    pen = ImageDraw.Draw(sheet)
    for row, name in enumerate(names):
        pen.text((MARGIN, head + row * (cell + GAP) + cell // 2), name, INK, font, anchor="lm")
    for left, (title, group) in zip(lefts, groups.items(), strict=True):
        pen.text((left, MARGIN), title, INK, font)
        for (row, column), _ in np.ndenumerate(group[:, :, 0, 0, 0]):
            sheet.paste(_enlarged(group[row, column]), (left + column * (cell + GAP), head + row * (cell + GAP)))
    sheet.save(path, format="PNG")


def _left_edges(columns: Sequence[int], start: int, cell: int) -> list[int]:
    """Where each group begins, and where one more would begin."""
    widths = [count * (cell + GAP) + BETWEEN_GROUPS - GAP for count in columns]
    return [start + sum(widths[:i]) for i in range(len(widths) + 1)]


def _enlarged_size(pictures: Pictures) -> tuple[int, int]:
    """Width and height after enlarging by a whole number."""
    height, width = pictures.shape[-3:-1]
    times = max(1, -(-CELL // max(height, width)))
    return width * times, height * times


def _enlarged(picture: Pictures) -> Image.Image:
    """Enlarge by repeating pixels, so that people see what networks see."""
    image = Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture)
    return image.convert("RGB").resize(_enlarged_size(picture), Image.Resampling.NEAREST)
