"""Look at every picture of a part once: can it be read, how large is it, what are its fingerprints."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data.audit import hashing
from metapl.data.audit.hashing import Hashes
from metapl.data.sources.source import BadImage, Files, Images

CHUNK = 128  # pictures that a thread takes at a time
EVEN = 16  # of 256 shades: a picture with fewer between its darkest and its brightest pixel shows nothing

Advance = Callable[[int], None]  # told how many more pictures are done


class Unreadable(NamedTuple):
    """A picture that could not be read, and why."""

    row: int
    name: str
    reason: str


class Survey(NamedTuple):
    """What one look at a part's pictures found; rows of unreadable ones hold zeros."""

    readable: NDArray[np.bool_]  # [N]
    digests: NDArray[np.void]  # [N] 16 bytes: equal pixels
    hashes: Hashes  # [N]: alike to the eye
    sizes: Counter[tuple[int, int]]  # (height, width) -> pictures
    modes: Counter[str]  # how the files store them: RGB, L, P, CMYK, …
    unreadable: tuple[Unreadable, ...]
    even: tuple[str, ...]  # names of pictures in which there is hardly anything to see


def survey(images: Images, advance: Advance = lambda count: None) -> Survey:
    """Read every picture, several at a time; what cannot be read is listed, never raised."""
    pieces = []
    for piece in _in_order(images):
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


def _in_order(images: Images) -> Iterator[Survey]:
    """Decoders and hashes let go of Python's lock: one thread waits for the disk while another works."""
    threads = min(os.cpu_count() or 1, 16)
    starts = iter(range(0, len(images), CHUNK))
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(_look, images, start) for start in islice(starts, 4 * threads)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(_look, images, start) for start in islice(starts, 1)]


def _look(images: Images, start: int) -> Survey:
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
    """How the picture is stored: a file's header says it; an array has its channels only."""
    if isinstance(images, Files):
        with Image.open(images.paths[index]) as image:
            return image.mode
    return {1: "L", 3: "RGB"}.get(picture.shape[-1], f"{picture.shape[-1]} channels")
