"""ImageNet-ReaL labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from metapl.data.reading.decode import DataError
from metapl.data.sources import imagenet_real as real


def write(folder: Path, content: object) -> None:
    (folder / "real.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_labels_are_read_and_put_in_order(tmp_path: Path) -> None:
    write(tmp_path, [[], [970, 795], [5]])
    labels = real.read([tmp_path], "real.json", pictures=3)
    assert labels == ((), (970, 795), (5,))
    names = ["ILSVRC2012_val_00000003.JPEG", "x/ILSVRC2012_val_00000001.png", "ILSVRC2012_val_00000002"]
    assert real.in_order_of(labels, names) == ((5,), (), (970, 795))
    mask = real.as_mask(labels)
    assert mask.shape == (3, 1000)
    assert [row.nonzero()[0].tolist() for row in mask] == [[], [795, 970], [5]]


@pytest.mark.parametrize("content", ["", "{", {}, [[1], [2]], [[1], [2], 3], [[1], [2], [1000]], [[1], [2], [True]]])
def test_wrong_files_are_named(tmp_path: Path, content: object) -> None:
    write(tmp_path, content)
    with pytest.raises(DataError, match=r"real\.json"):
        real.read([tmp_path], "real.json", pictures=3)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no real\.json .*Google Research"):
        real.read([tmp_path], "real.json")


@pytest.mark.parametrize("name", ["cat.jpg", "ILSVRC2012_val_00000000.JPEG", "ILSVRC2012_val_00000003.JPEG"])
def test_other_names(name: str) -> None:
    with pytest.raises(DataError, match="is not the name of"):
        real.in_order_of(((1,), (2,)), [name])


def test_classes_in_another_order_are_refused() -> None:
    """Most pictures have their own label, one has another, one has none; a handful says nothing yet."""
    own = np.arange(30, dtype=np.int32)
    mask = real.as_mask([[label, 500] for label in own[:28]] + [[7], []])
    real.refuse_other_numbers(mask, own)
    real.refuse_other_numbers(mask[:19], own[::-1][:19])
    with pytest.raises(DataError, match=r"own labels for only 3% of the test pictures.* not in ImageNet's order"):
        real.refuse_other_numbers(mask, np.roll(own, 21))
