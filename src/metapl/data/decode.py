"""One encoded picture to RGB bytes, or an error that names it: whatever a file holds, it never runs and never floods.

Transparency is dropped, as the field's loaders do: the colours below it stay. Of an animation the first frame is taken.
"""

import io
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from metapl.schema import ConfigError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
MAX_PIXELS = 64_000_000  # 192 MB as RGB; a few kilobytes of PNG can claim a thousand times that

# Pillow tells a format by its content, and some of those it knows start other programs (EPS: Ghostscript).
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


class DataError(ConfigError):
    """Data that cannot be read or is not there; its text is one sentence for the user."""


class BadImage(DataError):  # noqa: N818 (the audit lists them: each is a finding before it is an error)
    """A picture that cannot be decoded."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple[type["BadImage"], tuple[str, str]]:
        # Workers in other processes send it home; the default would call the class with the joined text.
        return type(self), (self.name, self.reason)


def decode_file(path: Path) -> NDArray[np.uint8]:
    """Read a picture file: [H, W, 3]."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadImage(str(path), "not a file")
            if found.st_size == 0:
                raise BadImage(str(path), "the file is empty")
            return _decode(file, str(path))
    except OSError as error:
        raise BadImage(str(path), error.strerror or str(error)) from None


def decode_bytes(data: bytes, name: str) -> NDArray[np.uint8]:
    """Read a picture from memory: [H, W, 3]; `name` is for errors."""
    if not data:
        raise BadImage(name, "the picture has no bytes")
    return _decode(io.BytesIO(data), name)


def _open_without_waiting(path: str, flags: int) -> int:
    # A named pipe among the pictures would block the reader for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _decode(file: io.BufferedReader | io.BytesIO, name: str) -> NDArray[np.uint8]:
    try:
        with Image.open(file, formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadImage(name, f"{image.width}×{image.height} pixels, more than the {MAX_PIXELS:,} allowed")
            return _to_rgb(ImageOps.exif_transpose(image), name)
    except BadImage:
        raise
    except UnidentifiedImageError:
        raise BadImage(name, f"not a picture of a known kind ({', '.join(_FORMATS)})") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BadImage(name, f"more than the {MAX_PIXELS:,} pixels allowed") from None
    except Exception as error:  # Pillow's plugins raise what they like on broken files
        raise BadImage(name, f"cannot be decoded: {error}") from None


def _to_rgb(image: Image.Image, name: str) -> NDArray[np.uint8]:
    if image.mode == "F":
        raise BadImage(name, "floating-point pixels have no agreed range")
    if image.mode.startswith("I"):  # Pillow's own conversion would clip 16-bit grey at 255
        return _from_16_bit(np.asarray(image), name)
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA")
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _from_16_bit(grey: NDArray[np.integer], name: str) -> NDArray[np.uint8]:
    if grey.min() < 0 or grey.max() > 65535:
        raise BadImage(name, "pixels beyond 16 bits")
    return np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=-1)
