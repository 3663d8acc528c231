"""Read the pictures of a part once: can it be read, how large is it, what are its fingerprints."""

import io
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data.audit import hashing
from metapl.data.audit.hashing import Hashes
from metapl.data.reading.decode import stored_as
from metapl.data.reading.packed import Packed
from metapl.data.reading.read_ahead import in_order
from metapl.data.sources.source import BadImage, Files, Images, InMemory, Part, Records
from metapl.data.splits.select import take

CHUNK = 32  # pictures that a thread takes at a time: seconds of work if they are large photos
ENOUGH = 512  # pixels on the shorter side that fingerprints need; large JPEGs come reduced, several times as fast
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


def survey_within(part: Part, seconds: float, advance: Advance = lambda count: None) -> tuple[Part, Survey]:
    """Read as many of a part's pictures as this time allows, drawn at random; return them and their survey."""
    if isinstance(part.images, InMemory):  # nothing to decode: all are read within seconds
        return part, survey(part.images, advance)
    order, ends = np.random.RandomState(0).permutation(len(part.images)), time.monotonic() + seconds
    seen = survey(take(part.images, order), advance, lambda: time.monotonic() > ends)
    rows = order[: len(seen.readable)]
    given = np.argsort(rows)  # the order in which the source has them
    place = np.argsort(given)
    seen = seen._replace(
        readable=seen.readable[given],
        digests=seen.digests[given],
        hashes=seen.hashes[given],
        unreadable=tuple(sorted(bad._replace(row=int(place[bad.row])) for bad in seen.unreadable)),
        even=tuple(sorted(seen.even)),
    )
    return Part(take(part.images, rows[given]), part.labels[rows[given]]), seen


def survey(
    images: Images, advance: Advance = lambda count: None, is_time_up: Callable[[], bool] = lambda: False
) -> Survey:
    """Read every picture, or the first ones until time is up, with several threads.

    A picture that cannot be read is listed, not raised as an error.
    """
    # Decoders and hashes release Python's lock: one thread waits for the disk while another works.
    threads = min(os.cpu_count() or 1, 16)
    pieces = []
    for piece in in_order(partial(_survey_chunk, images), range(0, len(images), CHUNK), threads, 4 * threads):
        pieces.append(piece)
        advance(len(piece.readable))
        if is_time_up():
            break
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
            picture = images.reduced(start + row, ENOUGH)
            mode, size = _stored_as(images, start + row, picture)
        except BadImage as error:
            unreadable.append(Unreadable(start + row, images.name(start + row), str(error)))
            continue
        readable[row] = True
        digests[row] = np.void(hashing.digest(picture))
        hashes[row] = hashing.perceptual(picture)
        modes[mode] += 1
        sizes[size] += 1
        if _shades(picture) < EVEN:
            even.append(images.name(start + row))
    return Survey(readable, digests, hashes, sizes, modes, tuple(unreadable), tuple(even))


def _stored_as(images: Images, index: int, picture: NDArray[np.uint8]) -> tuple[str, tuple[int, int]]:
    """Mode, and height and width, by a file's header; for an array, its channels and its shape."""
    if isinstance(images, Files):
        return stored_as(images.paths[index])
    if isinstance(images, Packed | Records):
        return stored_as(io.BytesIO(images.encoded(index)))
    height, width, channels = picture.shape
    return {1: "L", 3: "RGB"}.get(channels, f"{channels} channels"), (height, width)


def _shades(picture: NDArray[np.uint8]) -> int:
    """The largest difference between two pixels of [H, W, C] in a channel; Pillow is far faster here than NumPy."""
    if picture.shape[-1] != 3:
        return int(np.ptp(picture, axis=(0, 1)).max())
    return max(high - low for low, high in Image.fromarray(picture).getextrema())  # type: ignore[misc]
