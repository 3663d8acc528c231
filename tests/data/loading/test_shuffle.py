"""The keyed order is a bijection, close to a random one in what training can notice, and the same on both sides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from metapl.data.loading import loader, order, shuffle

UNLIKELY = 1e-6  # chance that a perfect shuffle fails one of these tests; the draws are fixed, so none is flaky


def drawn_words(seed: int, stream: int) -> order.Words:
    return np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(shuffle.ROUNDS).astype(np.uint32)


def orders(total: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """[count, total]: the orders of the first epochs under one key."""
    epochs = np.repeat(np.arange(count, dtype=np.uint32), total)
    positions = np.tile(np.arange(total, dtype=np.uint32), count)
    return on_host(drawn_words(seed, 0), epochs, positions, total).reshape(count, total)


def on_host(key: order.Words, epochs: order.Words, positions: order.Words, total: int) -> NDArray[np.int64]:
    return shuffle.shuffled(shuffle.ON_HOST, key, epochs, positions, total).astype(np.int64)


def improbable(counts: NDArray[np.int64], expected: float) -> bool:
    """Whether a chi-squared test finds the counts too far from equal, or suspiciously equal."""
    statistic = float(np.sum((counts - expected) ** 2) / expected)
    freedom = counts.size - 1
    return min(chi2.sf(statistic, freedom), chi2.cdf(statistic, freedom)) < UNLIKELY


@given(seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 2**32 - 1), total=st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_every_epoch_is_a_permutation(seed: int, epoch: int, total: int) -> None:
    epochs = np.full(total, epoch, np.uint32)
    found = on_host(drawn_words(seed, 0), epochs, np.arange(total, dtype=np.uint32), total)
    np.testing.assert_array_equal(np.sort(found), np.arange(total))


@pytest.mark.parametrize("total", [1, 2, 3, 4, 7, 16, 17, 250, 1025, 50_000])
@pytest.mark.parametrize("epoch", [0, 1, 2**32 - 1])
def test_device_and_host_agree(total: int, epoch: int) -> None:
    key = drawn_words(5, 1)
    epochs, positions = np.full(total, epoch, np.uint32), np.arange(total, dtype=np.uint32)
    on_device = loader.ON_DEVICE, jnp.asarray(key), jnp.asarray(epochs), jnp.asarray(positions)
    device = shuffle.shuffled(*on_device, total)
    np.testing.assert_array_equal(device, on_host(key, epochs, positions, total))
    np.testing.assert_array_equal(np.sort(device), np.arange(total))


@pytest.mark.parametrize(("batch", "total"), [(4, 10), (10, 10), (7, 3), (6, 3), (1, 1), (64, 1000)])
def test_device_and_host_share_their_epochs(batch: int, total: int) -> None:
    key = jax.random.key(3)
    words = np.asarray(jax.random.bits(key, (shuffle.ROUNDS,)))
    for step in (0, 1, 2, 3, 50, 1_000_003):
        expected = loader.epoch_indices(key, jnp.asarray(step), batch, total)
        np.testing.assert_array_equal(order.epoch_indices(words, step, batch, total), expected)


@pytest.mark.parametrize("total", [2, 3, 4, 5, 6, 10, 16, 37])
def test_every_position_is_uniform(total: int) -> None:
    found = orders(total, 4000)
    for position in {0, 1, total // 2, total - 1}:
        counts = np.bincount(found[:, position], minlength=total)
        assert not improbable(counts, 4000 / total), (position, counts)


@pytest.mark.parametrize("total", [3, 4, 5, 6, 10, 16])
def test_neighbouring_positions_are_not_correlated(total: int) -> None:
    found = orders(total, 8000, seed=1)
    for position in {0, total // 2 - 1, total - 2}:
        pairs = found[:, position] * total + found[:, position + 1]
        counts = np.bincount(pairs, minlength=total * total).reshape(total, total)
        apart = counts[~np.eye(total, dtype=bool)]
        assert not improbable(apart, 8000 / (total * (total - 1)))


@pytest.mark.parametrize("total", [2, 3, 5, 10, 16])
def test_neighbouring_epochs_are_not_correlated(total: int) -> None:
    found = orders(total, 8001, seed=2)
    for position in {0, total - 1}:
        pairs = found[:-1, position] * total + found[1:, position]
        assert not improbable(np.bincount(pairs, minlength=total * total), 8000 / total**2)


@pytest.mark.parametrize("total", [3, 4])
def test_all_orders_of_few_things_come(total: int) -> None:
    """All n! of them, equally often: the strongest that can be asked, for the fewest labels."""
    found = orders(total, 12_000, seed=3)
    _, counts = np.unique(found, axis=0, return_counts=True)
    expected = {3: 6, 4: 24}[total]
    assert len(counts) == expected
    assert not improbable(counts, 12_000 / expected)


@pytest.mark.parametrize("total", [1000, 50_000])
def test_large_orders_have_no_trend_and_few_neighbours(total: int) -> None:
    """In a random order the rank correlation of place and picture, and of one place and the next, is about 1/√n."""
    for found in orders(total, 8, seed=4).astype(float):
        for lag in (0, 1, 2):
            left = np.arange(total) if lag == 0 else found[:-lag]
            right = found if lag == 0 else found[lag:]
            assert abs(np.corrcoef(left, right)[0, 1]) < 5 / np.sqrt(total)
        touching = np.sum(np.abs(np.diff(found)) == 1)  # about Poisson with mean 2
        assert touching < 15


def test_large_orders_of_two_epochs_and_of_two_seeds_are_unrelated() -> None:
    first, second = orders(20_000, 2, seed=5).astype(float)
    other = orders(20_000, 1, seed=6)[0].astype(float)
    for left, right in ((first, second), (first, other)):
        assert abs(np.corrcoef(left, right)[0, 1]) < 5 / np.sqrt(20_000)
        assert np.sum(left == right) < 15  # about Poisson with mean 1


@given(
    seed=st.integers(0, 2**32 - 1), total=st.integers(1, 200), batch=st.integers(1, 200), epoch=st.integers(0, 10**6)
)
@settings(max_examples=80, deadline=None)
def test_an_epoch_takes_nothing_twice(seed: int, total: int, batch: int, epoch: int) -> None:
    key = drawn_words(seed, 0)
    if batch <= total:
        steps = range(epoch * (total // batch), (epoch + 1) * (total // batch))
        seen = np.concatenate([order.epoch_indices(key, step, batch, total) for step in steps])
        assert len(np.unique(seen)) == len(seen) == total // batch * batch
    else:
        seen = order.epoch_indices(key, epoch, batch, total)
        counts = np.bincount(seen, minlength=total)
        assert counts.max() - counts.min() <= 1
