"""Pieces of about a second, found without stopping the device."""

import itertools

import pytest

from metapl.train.pace import ChunkPace


def follow(pace: ChunkPace, now: list[float], seconds_a_step: float, pieces: int, border: int = 10**9) -> list[int]:
    """Let the device work on pieces; give how long each was."""
    sizes, done = [], 0
    for _ in range(pieces):
        sizes.append(min(pace.steps, border - done % border))
        now[0] += sizes[-1] * seconds_a_step
        done += sizes[-1]
        pace.follow(sizes[-1], ())
    return sizes


@pytest.mark.parametrize(("seconds_a_step", "expected"), [(0.001, 1000), (0.1, 10), (0.4, 2), (30.0, 1)])
def test_pieces_grow_to_a_second_and_have_at_least_a_step(seconds_a_step, expected):
    now = [0.0]
    sizes = follow(ChunkPace(lambda: now[0]), now, seconds_a_step, 40)
    assert sizes[0] == 1
    assert sizes[-1] == pytest.approx(expected, rel=0.5)
    assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))


def test_pieces_shrink_when_steps_become_slow():
    now = [0.0]
    pace = ChunkPace(lambda: now[0])
    follow(pace, now, 0.001, 20)
    assert follow(pace, now, 0.1, 6)[-1] <= 20


def test_the_piece_before_is_waited_for_and_never_the_last_one(monkeypatch):
    waited = []
    monkeypatch.setattr("jax.block_until_ready", waited.append)
    pace = ChunkPace()
    for name in ("a", "b", "c"):
        pace.follow(1, name)
    assert waited == ["a", "b"]
