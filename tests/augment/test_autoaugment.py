"""AutoAugment: its tables, its chances, and that its operations are those of the policy, compared with Pillow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageOps

from metapl.augment import autoaugment
from metapl.augment.autoaugment import AutoAugment, table
from metapl.augment.randaugment import CIFAR_OPS
from metapl.augment.strong import distort
from tests.augment.sample_pictures import photographs


@pytest.mark.parametrize(
    ("policy", "first", "last"),
    [
        ("cifar10", [("invert", 0.1, 0), ("contrast", 0.2, 6)], [("translate_y", 0.7, 9), ("auto_contrast", 0.9, 0)]),
        ("svhn", [("shear_x", 0.9, 4), ("invert", 0.2, 0)], [("shear_x", 0.7, 2), ("invert", 0.1, 0)]),
        ("imagenet", [("posterize", 0.4, 8), ("rotate", 0.6, 9)], [("equalize", 0.8, 0), ("equalize", 0.6, 0)]),
    ],
)
def test_a_policy_has_25_pairs_of_operations(policy, first, last):
    read = table(policy)
    assert read.op.shape == read.chance.shape == read.magnitude.shape == (25, 2)
    assert read.chance.max() <= 1
    assert read.magnitude.max() <= 10
    rows = [
        [(CIFAR_OPS[op], round(float(p), 1), m) for op, p, m in zip(*line, strict=True)]
        for line in zip(*read, strict=True)
    ]
    assert (rows[0], rows[-1]) == (first, last)


def test_both_operations_are_done_in_order_with_their_chances(monkeypatch):
    """Posterize to 4 bits, then invert, with chances 1 and 0.25: exactly what Pillow makes of it."""
    monkeypatch.setitem(autoaugment.TEXTS, "svhn", "posterize 1.0 10, invert 0.25")
    autoaugment.table.cache_clear()
    pictures = jnp.tile(photographs(8)[:1], (400, 1, 1, 1))
    distorted = np.asarray(jax.jit(distort, static_argnums=0)(AutoAugment("svhn"), pictures, jax.random.key(0)))
    autoaugment.table.cache_clear()
    first = ImageOps.posterize(Image.fromarray(np.asarray(pictures[0])), 4)
    expected = [np.asarray(first), np.asarray(ImageOps.invert(first))]
    which = [[np.array_equal(picture, one) for one in expected].index(True) for picture in distorted]
    assert 0.18 < np.mean(which) < 0.32


def test_translations_end_where_the_authors_end_them(monkeypatch):
    monkeypatch.setitem(autoaugment.TEXTS, "cifar10", "translate_x 1.0 10, translate_x 0.0 10")
    autoaugment.table.cache_clear()
    columns = jnp.broadcast_to(jnp.arange(32, dtype=jnp.uint8)[None, None, :, None], (8, 32, 32, 3))
    moved = np.asarray(distort(AutoAugment("cifar10"), columns, jax.random.key(1)))
    autoaugment.table.cache_clear()
    assert {int(picture[0, 16, 0]) for picture in moved} == {6, 26}


def test_pictures_of_a_batch_go_their_own_ways_and_cutout_comes_last():
    pictures = jnp.tile(photographs(16)[:1], (32, 1, 1, 1))
    distorted = np.asarray(distort(AutoAugment("imagenet", cutout=6), pictures, jax.random.key(0)))
    assert len({picture.tobytes() for picture in distorted}) > 20
    assert all((picture == 128).all(-1).sum() >= 9 for picture in distorted)
