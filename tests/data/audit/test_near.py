"""The search gives what comparing all pairs gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapl.data.audit import near
from metapl.data.audit.hashing import Hashes, distances


def some_hashes(seed: int, count: int, flips: int) -> Hashes:
    """Few centres, each hash a few bits from one: many pairs at every small distance."""
    draw = np.random.default_rng(seed)
    hashes = draw.choice(draw.integers(0, 2**64, 5, dtype=np.uint64), count)
    for _ in range(flips):
        hashes = hashes ^ (np.uint64(1) << draw.integers(0, 64, count).astype(np.uint64))
    return hashes


@given(seed=st.integers(0, 2**32), sizes=st.tuples(st.integers(0, 60), st.integers(0, 60)), distance=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_match_finds_what_all_pairs_finds(seed: int, sizes: tuple[int, int], distance: int) -> None:
    queries, table = some_hashes(seed, sizes[0], 4), some_hashes(seed, sizes[1], 3)
    expected = np.argwhere(distances(queries[:, None], table[None, :]) <= distance)
    rows, columns = near.match(queries, table, distance)
    np.testing.assert_array_equal(np.stack([rows, columns], axis=1), expected)


@pytest.mark.parametrize("per_band", [(1, 1, 1, 1), (2, 2, 2, 1), (1, 2, 1, 2), (4, 1, 1, 1)])
def test_bits_spread_over_all_bands_are_found(per_band: tuple[int, ...]) -> None:
    """The worst case of the pigeonhole: no band is equal."""
    changed = sum(1 << (near.BANDS * i + band) for band, count in enumerate(per_band) for i in range(count))
    queries = np.array([0x0123456789ABCDEF], np.uint64)
    rows, _ = near.match(queries, queries ^ np.uint64(changed), sum(per_band))
    assert rows.tolist() == [0]
    assert near.match(queries, queries ^ np.uint64(changed), sum(per_band) - 1)[0].tolist() == []


def test_work_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = some_hashes(1, 200, 2)
    whole = near.match(queries, queries, 5)
    monkeypatch.setattr(near, "PAIRS_AT_ONCE", 7)
    np.testing.assert_array_equal(near.match(queries, queries, 5), whole)


def test_a_distance_beyond_the_pigeonhole_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 7"):
        near.match(some_hashes(0, 2, 0), some_hashes(0, 2, 0), 8)
