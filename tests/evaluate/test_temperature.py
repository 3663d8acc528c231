"""The temperature that makes answers as sure as they are right."""

import numpy as np
import pytest

from metapl.evaluate import temperature
from metapl.evaluate.measures import log_softmax, score


def answers(n: int, true_temperature: float, seed: int = 0):
    """Logits, and labels drawn as often as the logits divided by a temperature say."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 4, (n, 5)).astype(np.float32)
    p = np.exp(log_softmax(logits / true_temperature))
    return logits, np.array([draw.choice(5, p=row / row.sum()) for row in p], np.int32)


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_temperature_that_labels_were_drawn_at_is_found(true):
    logits, labels = answers(4000, true)
    found = temperature.fit(logits, labels)
    assert found == pytest.approx(true, rel=0.1)
    if true != 1:
        assert score(logits / found, labels).nll < score(logits, labels).nll


def test_a_few_pictures_do_not_make_answers_certain():
    logits = np.eye(3, dtype=np.float32)
    assert 0.3 < temperature.fit(logits, np.arange(3, dtype=np.int32)) < 1
    assert temperature.fit(logits[:0], np.zeros(0, np.int32)) == 1


def test_answers_of_no_chance_at_all_are_kept_finite():
    logits = np.full((4, 3), -69.0, np.float32)
    logits[:, 0] = 0
    assert np.isfinite(temperature.fit(logits, np.array([0, 1, 2, 1], np.int32)))
