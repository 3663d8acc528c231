"""All pairs of 64-bit hashes within a small Hamming distance, without comparing all pairs.

The 64 bits are dealt out to four bands of 16. Two hashes that differ in at most 7 bits differ in at most one bit of
some band (pigeonhole), so it is enough to look, in each band, among those whose 16 bits are equal or one bit away.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.hashing import Hashes, distances

BANDS, BAND_BITS = 4, 16
MAX_DISTANCE = 2 * BANDS - 1
PAIRS_AT_ONCE = 1 << 22  # compared at a time: tens of megabytes

Indices = NDArray[np.int64]


def match(queries: Hashes, table: Hashes, max_distance: int) -> tuple[Indices, Indices]:
    """Indices (into queries, into table) of every pair within `max_distance`, each pair once, in order."""
    if not 0 <= max_distance <= MAX_DISTANCE:
        raise ValueError(f"max_distance takes 0 to {MAX_DISTANCE}, got {max_distance}")
    matches = [
        pairs
        for band in range(BANDS)
        for pairs in _match_band(queries, table, _band(queries, band), _band(table, band), max_distance)
    ]
    pairs = np.unique(np.concatenate([np.empty((0, 2), np.int64), *matches]), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _band(hashes: Hashes, band: int) -> NDArray[np.uint16]:
    """Every fourth bit: neighbouring bits are often equal, and would put too many hashes into few buckets."""
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1)
    return np.packbits(bits[:, band::BANDS], axis=1).view(np.uint16)[:, 0]


def _match_band(
    queries: Hashes, table: Hashes, query_keys: NDArray[np.uint16], keys: NDArray[np.uint16], max_distance: int
) -> Iterator[Indices]:
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=1 << BAND_BITS))
    starts = np.concatenate([[0], ends[:-1]])
    flips = [0, *(1 << bit for bit in range(BAND_BITS))] if max_distance >= BANDS else [0]
    for flip in flips:
        probe = query_keys ^ np.uint16(flip)
        for query, slot in _expand(starts[probe], ends[probe]):
            entry = order[slot]
            close = distances(queries[query], table[entry]) <= max_distance
            yield np.stack([query[close], entry[close]], axis=1)


def _expand(starts: Indices, ends: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Pairs (row, slot) for every slot of every row's range, about PAIRS_AT_ONCE at a time."""
    counts = ends - starts
    total = np.cumsum(counts)
    cuts = np.searchsorted(total, np.arange(0, total[-1] if len(total) else 0, PAIRS_AT_ONCE), side="right")
    for first, last in pairwise([*cuts, len(counts)]):
        rows = np.repeat(np.arange(first, last), counts[first:last])
        begins = np.repeat(np.cumsum(counts[first:last]) - counts[first:last], counts[first:last])
        yield rows, np.arange(len(rows)) - begins + starts[rows]
