"""Read every picture of a part once: can it be read, how large is it, what are its fingerprints."""

import io
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data.audit import hashing
from metapl.data.audit.hashing import Hashes
from metapl.data.reading.packed import Packed
from metapl.data.reading.read_ahead import in_order
from metapl.data.sources.source import BadImage, Files, Images

CHUNK = 128  # pictures that a thread takes at a time
EVEN = 16  # of 256 shades: a picture with fewer between its darkest and brightest pixel is blank

Advance = Callable[[int], None]  # called with the number of pictures that are done since


class Unreadable(NamedTuple):
    """A picture that could not be read, and why."""

    row: int
    name: str
    reason: str


class Survey(NamedTuple):
    """The readable pictures' fingerprints and sizes; unreadable pictures have zeros in their rows."""

    readable: NDArray[np.bool_]  # [N]
    digests: NDArray[np.void]  # [N] 16 bytes: equal pixels
    hashes: Hashes  # [N]: near for pictures that look alike
    sizes: Counter[tuple[int, int]]  # (height, width) -> pictures
    modes: Counter[str]  # how the files store them: RGB, L, P, CMYK, …
    unreadable: tuple[Unreadable, ...]
    even: tuple[str, ...]  # names of pictures that are blank or nearly so


def survey(images: Images, advance: Advance = lambda count: None) -> Survey:
    """Read every picture, with several threads. A picture that cannot be read is listed, not raised as an error."""
    # Decoders and hashes release Python's lock: one thread waits for the disk while another works.
    threads = min(os.cpu_count() or 1, 16)
    pieces = []
    for piece in in_order(partial(_survey_chunk, images), range(0, len(images), CHUNK), threads, 4 * threads):
        pieces.append(piece)
        advance(len(piece.readable))
    return Survey(
        np.concatenate([np.empty(0, bool), *(piece.readable for piece in pieces)]),
        np.concatenate([np.empty(0, "V16"), *(piece.digests for piece in pieces)]),
        np.concatenate([np.empty(0, np.uint64), *(piece.hashes for piece in pieces)]),
        sum((piece.sizes for piece in pieces), Counter()),
        sum((piece.modes for piece in pieces), Counter()),
        tuple(bad for piece in pieces for bad in piece.unreadable),
        tuple(name for piece in pieces for name in piece.even),
    )


def _survey_chunk(images: Images, start: int) -> Survey:
    """Survey one chunk."""
    count = min(CHUNK, len(images) - start)
    readable, digests, hashes = np.zeros(count, bool), np.zeros(count, "V16"), np.zeros(count, np.uint64)
    sizes: Counter[tuple[int, int]] = Counter()
    modes: Counter[str] = Counter()
    unreadable, even = [], []
    for row in range(count):
        try:
            picture = images[start + row]
            modes[_mode(images, start + row, picture)] += 1
        except BadImage as error:
            unreadable.append(Unreadable(start + row, images.name(start + row), str(error)))
            continue
        readable[row] = True
        digests[row] = np.void(hashing.digest(picture))
        hashes[row] = hashing.perceptual(picture)
        sizes[picture.shape[:2]] += 1
        if np.ptp(picture, axis=(0, 1)).max() < EVEN:
            even.append(images.name(start + row))
    return Survey(readable, digests, hashes, sizes, modes, tuple(unreadable), tuple(even))


def _mode(images: Images, index: int, picture: NDArray[np.uint8]) -> str:
    """How the picture is stored: the mode in a file's header; for an array, its channels."""
    if isinstance(images, Files):
        with Image.open(images.paths[index]) as image:
            return image.mode
    if isinstance(images, Packed):
        with Image.open(io.BytesIO(images.encoded(index))) as image:
            return image.mode
    return {1: "L", 3: "RGB"}.get(picture.shape[-1], f"{picture.shape[-1]} channels")
