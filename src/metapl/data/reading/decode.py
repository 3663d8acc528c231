"""Decode one picture to RGB bytes, or raise an error that names it. No file is executed or fills the memory.

Transparency is dropped and the colours stay, as in the field's loaders. Of an animation the first frame is taken.
`shades` converts pixels of more than 8 bits.

A JPEG stores frequencies of blocks of 8×8 pixels. If a picture is to be scaled down anyway, the decoder leaves out the
high ones: the picture comes out reduced to a half, a quarter or an eighth, several times as fast.
"""

import io
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from metapl.data.reading import shades
from metapl.schema import ConfigError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
# Pictures that people have, and that Pillow does not read without more packages, or only as something else.
OTHER_SUFFIXES = frozenset({
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".raw", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".psd",
    ".svg",
})  # fmt: skip
MAX_PIXELS = 64_000_000  # 192 MB as RGB; a PNG of a few kilobytes can unpack to a thousand times that

# Pillow detects a format by its content, and some formats make it start other programs (EPS: Ghostscript).
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")

# TIFF's tags: BitsPerSample, SampleFormat, and GDAL_NODATA (https://gdal.org/drivers/raster/gtiff.html)
_BITS, _KIND, _NO_DATA = 258, 339, 42113
_UNSIGNED = (1,)
_ORIENTATION, _ON_ITS_SIDE = 274, (5, 6, 7, 8)  # EXIF's tag, and its values with height and width exchanged


class DataError(ConfigError):
    """Data that cannot be read or are missing; its text is one sentence for the user."""


class BadImage(DataError):  # noqa: N818 (the audit lists bad pictures without raising them)
    """A picture that cannot be decoded."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple[type["BadImage"], tuple[str, str]]:
        # Workers send it to this process by pickle, whose default would call the class with the joined text.
        return type(self), (self.name, self.reason)


def decode_file(path: Path, shorter: int = 0) -> NDArray[np.uint8]:
    """Read a picture file: [H, W, 3].

    A JPEG may come reduced if its shorter side keeps at least `shorter` pixels; 0: as it is stored.
    """
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadImage(str(path), "not a file")
            if status.st_size == 0:
                raise BadImage(str(path), "the file is empty")
            return _decode(file, str(path), shorter)
    except OSError as error:
        raise BadImage(str(path), error.strerror or str(error)) from None


def decode_bytes(data: bytes, name: str, shorter: int = 0) -> NDArray[np.uint8]:
    """Read a picture from memory as `decode_file` does: [H, W, 3]; `name` is for errors."""
    if not data:
        raise BadImage(name, "the picture has no bytes")
    return _decode(io.BytesIO(data), name, shorter)


def open_without_waiting(path: str | Path, flags: int) -> int:
    """Opener for `open`: a named pipe among the pictures would block it for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def stored_as(file: Path | io.BytesIO) -> tuple[str, tuple[int, int]]:
    """How a picture is stored, by its header: the mode (RGB, L, P, CMYK, …), and height and width as it is shown."""
    with Image.open(file, formats=_FORMATS) as image:
        turned = image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
        return image.mode, image.size if turned else (image.height, image.width)


def _decode(file: io.BufferedReader | io.BytesIO, name: str, shorter: int) -> NDArray[np.uint8]:
    try:
        with Image.open(file, formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadImage(name, f"{image.width}×{image.height} pixels, more than the {MAX_PIXELS:,} allowed")
            if shorter:
                image.draft(None, (shorter, shorter))  # nothing happens unless it is a JPEG
            return _to_rgb(image)
    except BadImage:
        raise
    except UnidentifiedImageError:
        kinds = ", ".join(_FORMATS)
        raise BadImage(name, f"not a picture of a known kind ({kinds}, but no TIFF of 64 bits a pixel)") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BadImage(name, f"more than the {MAX_PIXELS:,} pixels allowed") from None
    except Exception as error:  # Pillow's plugins raise errors of any type on damaged files
        raise BadImage(name, f"cannot be decoded: {error}") from None


def _to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    turned = ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):  # Pillow's own conversion would clip values above 255
        grey = _to_bytes(np.asarray(turned), image)
        return np.repeat(grey[..., None], 3, axis=-1)
    if turned.mode in ("P", "PA"):
        turned = turned.convert("RGBA")
    return np.asarray(turned if turned.mode == "RGB" else turned.convert("RGB"))


def _to_bytes(grey: shades.Grey, image: Image.Image) -> NDArray[np.uint8]:
    """Convert pixels of more than 8 bits to bytes; TIFF's tags say how to read them."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return shades.by_format(grey)
    tags = getattr(image, "tag_v2", {})
    if image.mode == "I" and tags.get(_BITS) == (32,) and tags.get(_KIND, _UNSIGNED) == _UNSIGNED:
        grey = grey.view(np.uint32)  # Pillow reads them as signed
    return shades.by_own_range(grey, _no_data(tags.get(_NO_DATA)))


def _no_data(tag: object) -> float | None:
    """The value that marks missing pixels in geographic files; None if there is none."""
    try:
        return float(str(tag).strip("\0 "))
    except ValueError:
        return None
