"""Equal pixels hash equally; so do pictures that look equal, nearly, and others do not."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from metapl.data.audit import hashing


def scene(seed: int, size: int = 64) -> Image.Image:
    """A picture with shapes of all sizes, as photos have: noise of a falling spectrum."""
    draw = np.random.default_rng(seed)
    waves = np.fft.fftfreq(size)
    radius = np.hypot(waves[:, None], waves) + 1 / size
    noise = draw.normal(size=(3, size, size)) + 1j * draw.normal(size=(3, size, size))
    field = np.fft.ifft2(noise / radius**1.5).real
    low, high = field.min(), field.max()
    return Image.fromarray(((field - low) / (high - low) * 255).astype(np.uint8).transpose(1, 2, 0))


def one_hash(image: Image.Image) -> NDArray[np.uint64]:
    return np.array([hashing.perceptual(np.asarray(image))])


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


CHANGES = {
    "jpeg": lambda image: jpeg(image, 60),
    "half": lambda image: image.resize((32, 32), Image.Resampling.BILINEAR),
    "double": lambda image: image.resize((128, 128), Image.Resampling.BILINEAR),
    "odd size": lambda image: image.resize((75, 51), Image.Resampling.BILINEAR),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.8),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_stays_near(change: str) -> None:
    apart = [
        int(hashing.distances(one_hash(scene(seed)), one_hash(CHANGES[change](scene(seed))))[0]) for seed in range(30)
    ]
    assert np.mean(np.array(apart) <= 4) >= 0.9
    assert max(apart) <= 10


def test_other_pictures_are_far() -> None:
    hashes = np.concatenate([one_hash(scene(seed)) for seed in range(60)])
    apart = hashing.distances(hashes[:, None], hashes)[np.triu_indices(60, 1)]
    assert apart.min() > 8
    assert 28 < apart.mean() < 34


def test_blank_pictures_of_all_greys_are_alike() -> None:
    hashes = {int(hashing.perceptual(np.full((20, 20, 3), grey, np.uint8))) for grey in (0, 3, 128, 255)}
    assert len(hashes) == 1


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 1), (3, 200, 3), (33, 31, 4)])
def test_any_shape_has_a_hash(shape: tuple[int, int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    assert isinstance(hashing.perceptual(picture), np.uint64)


def test_the_digest_knows_pixels_and_shape_only() -> None:
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert hashing.digest(picture) == hashing.digest(np.asfortranarray(picture))
    assert hashing.digest(picture) != hashing.digest(picture.reshape(2, 8, 3))
    assert hashing.digest(picture) != hashing.digest(picture + 1)
