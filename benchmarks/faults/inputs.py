"""Damaged and random inputs: each gives a result or one clear sentence, never a traceback, and nothing in it is run.

Every kind has seeds, which are valid, and a reader: the function of the package that meets such a file first. A seed is
mutated at the level of bytes (bits, blocks, lengths) and, for text, of words and numbers.
"""

import random
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from faults.report import FailedError, finding, summary
from faults.seeds import SEEDS
from metapl.data.reading.decode import DataError
from metapl.schema import ConfigError

CLEAR = (ConfigError, DataError)  # errors that the command line prints as one sentence
NUMBERS = (b"-1", b"0", b"1e309", b"nan", b"99999999999999999999", b"true", b"[]", b"{}", b'""', b"'\xff'")


class Kind(NamedTuple):
    """Valid files, and who reads them."""

    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], Any]
    name: str  # of the file


KINDS: Mapping[str, Kind] = {name: Kind(*parts) for name, parts in SEEDS.items()}


def campaign(kind: str, number: int, seed: int, keep: Path | None = None) -> dict[str, Any]:
    """Try so many inputs of one kind; return what happened."""
    draw, failures, refused, problems = random.Random(f"{kind} {seed}"), list[str](), 0, set[str]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="metapl-faults-") as folder:
        place = Path(folder)
        seeds = KINDS[kind].seeds(place)
        for _ in range(number):
            data = mutated(draw.choice(seeds), draw)
            problem = tried(kind, place, data)
            refused += problem == ""
            if problem and problem not in problems:  # one failure for each place in the code
                problems.add(problem)
                small = smaller(kind, place, data, problem)
                failures.append(finding(kind, kept(keep, kind, small), problem))
    seconds = round(time.monotonic() - began)
    return summary("inputs", kind, number, failures, refused=refused, seconds=seconds)


def tried(kind: str, place: Path, data: bytes) -> str | None:
    """None if the input was read, "" if it was refused in a sentence, else where the error came from."""
    path = place / KINDS[kind].name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind].read(path)
    except CLEAR as error:
        return "" if str(error).strip() and len(str(error)) < 2000 else f"an error without a clear sentence: {error!r}"
    except FailedError as error:
        return f"failed: {error}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} ({last.name})"
    return None


def smaller(kind: str, place: Path, data: bytes, problem: str) -> bytes:
    """Cut pieces out of the input as long as it fails in the same place."""
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if tried(kind, place, shorter) == problem:
                data = shorter
            else:
                at += size
        size //= 2 if len(data) < 4096 else 4
    return data


def kept(keep: Path | None, kind: str, data: bytes) -> str:
    """Write a failing input to the folder of failures; return where."""
    if keep is None:
        return f"{len(data)} bytes: {data[:120]!r}"
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"{kind}-{zlib.crc32(data):x}"
    path.write_bytes(data)
    return str(path)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Change one thing, or a few."""
    for _ in range(draw.choice(CHANGES)):
        data = draw.choice(MUTATIONS)(data, draw)
    return data


def _flip(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return data
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _drop(data: bytes, draw: random.Random) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 4, 16, 64))
    return data[:at] + data[at + length :]


def _repeat(data: bytes, draw: random.Random) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 4, 32, 256))
    return data[: at + length] + data[at : at + length] * draw.choice((1, 2, 50)) + data[at + length :]


def _random(data: bytes, draw: random.Random) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 4, 8))
    return data[:at] + draw.randbytes(length) + data[at + length :]


def _extreme(data: bytes, draw: random.Random) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 4, 8))
    return data[:at] + draw.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * length + data[at + length :]


def _word(data: bytes, draw: random.Random) -> bytes:
    words = data.split(b" ")
    words[draw.randrange(len(words))] = draw.choice(NUMBERS)
    return b" ".join(words)


def _lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


CHANGES = (1, 1, 1, 2, 3, 6)  # half of the inputs differ in one place only, and come far
MUTATIONS = (_flip, _cut, _drop, _repeat, _random, _extreme, _word, _lines)
