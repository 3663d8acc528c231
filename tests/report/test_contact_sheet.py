import numpy as np
import pytest
from PIL import Image

from metapl.augment.randaugment import RandAugment
from metapl.augment.views import Augmentation, WeakView
from metapl.report import contact_sheet

STILL = Augmentation(
    weak=WeakView(flip=False, shift_pixels=0), strong=RandAugment(layers=1, ops=("invert",), probability=1.0)
)


NAMES = ("aeroplane", "frog", "a quite long class name")


def find(sheet, picture, times):
    """The rows of pixels at which an enlarged picture begins on the sheet."""
    large = picture.repeat(times, 0).repeat(times, 1)
    height, width, _ = large.shape
    corners = np.argwhere((sheet[: 1 - height, : 1 - width] == large[0, 0]).all(axis=-1))
    return [y for y, x in corners if np.array_equal(sheet[y : y + height, x : x + width], large)]


@pytest.mark.parametrize("channels", [1, 3])
def test_originals_and_views_are_on_the_sheet(tmp_path, channels):
    pictures = np.random.default_rng(0).integers(0, 256, (4, 8, 8, channels), dtype=np.uint8)
    contact_sheet.show(pictures[:3], NAMES, STILL, tmp_path / "sheet.png", columns=2)
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.format == "PNG"
        sheet = np.asarray(image)
    for picture in np.broadcast_to(pictures, (4, 8, 8, 3))[:3]:
        places = [*find(sheet, picture, 8), *find(sheet, 255 - picture, 8)]
        assert len(places) == 5  # itself, two weak views and two strong ones
        assert len(set(places)) == 1, "all in one row"
    assert find(sheet, np.broadcast_to(pictures[3], (8, 8, 3)), 8) == []


def test_views_of_another_size_fit(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (2, 90, 120, 3), dtype=np.uint8)
    config = Augmentation(
        size=40, weak=WeakView(crop="resized"), strong=RandAugment(layers=1, ops=("invert",), probability=1.0)
    )
    contact_sheet.show(pictures, NAMES[:2], config, tmp_path / "sheet.png", columns=1)
    with Image.open(tmp_path / "sheet.png") as image:
        assert len(find(np.asarray(image), pictures[1], 1)) == 1


def test_classes_come_in_turn():
    labels = np.array([2, 2, 0, 0, 0, 1], np.int32)
    np.testing.assert_array_equal(contact_sheet.classes_in_turn(labels, 5), [2, 5, 0, 3, 1])
