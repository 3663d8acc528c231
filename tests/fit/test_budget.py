"""From a budget to a number of steps."""

import pytest

from metapl.fit import budget
from metapl.fit.budget import Batches, Probe

BATCHES = Batches(32, 64)


def test_unlabelled_pictures_make_a_step_more_expensive() -> None:
    assert budget.steps_within(22.5, 0.01, BATCHES, has_unlabeled=False) == 1022
    assert budget.steps_within(22.0, 0.01, BATCHES, has_unlabeled=True) == int(22.0 / (0.01 * (2 + 1.5 * 8 + 0.2)))


@pytest.mark.parametrize(
    ("possible", "steps", "why"),
    [(50, 200, "may end before"), (900, 900, "as many as fit"), (9000, 3125, "not used up")],
)
def test_steps_are_neither_too_few_nor_too_many(possible: int, steps: int, why: str) -> None:
    chosen, sentence = budget.bounded_steps(possible, Probe(1.0, 0.02), BATCHES, labeled=100)
    assert chosen == steps
    assert why in sentence
    assert "20 ms" in sentence
