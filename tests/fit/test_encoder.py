"""Which pretrained encoder a fit uses."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from metapl.fit import encoder
from metapl.fit.encoder import Candidate, Pictures

LARGE, MIDDLE, SMALL = (
    Candidate("efficientnet_lite2", 192),
    Candidate("efficientnet_lite0", 192),
    Candidate("efficientnet_lite0", 128),
)


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"}, [LARGE, MIDDLE, SMALL]),
        ({"efficientnet_lite0"}, [MIDDLE, SMALL]),
        ({"efficientnet_lite2"}, [LARGE, Candidate("efficientnet_lite2", 128)]),
        (set(), []),
    ],
)
def test_the_best_network_that_is_installed_comes_first(monkeypatch, installed, expected):
    monkeypatch.setattr(encoder.packages, "installed", installed.__contains__)
    assert encoder.candidates() == expected


@pytest.mark.parametrize(
    ("fastest_s", "pictures", "budget_s", "expected"),
    [
        (0.005, Pictures(1200, 4000, 32), 900.0, LARGE),
        (0.019, Pictures(1200, 0, 32), 900.0, MIDDLE),  # 67 and 51 of 60 s
        (0.03, Pictures(1200, 0, 32), 900.0, SMALL),
        (0.02, Pictures(100, 4000, 32), 500.0, LARGE),  # enough of the unlabelled pictures: 117 of 125 s
        (0.024, Pictures(100, 4000, 32), 500.0, MIDDLE),
        (0.005, Pictures(1200, 0, 32), 110.0, MIDDLE),  # 18 and 14 of 16 s: the share of a small budget
        (1.0, Pictures(1200, 4000, 32), 900.0, SMALL),  # none is fast enough
    ],
)
def test_the_best_encoder_that_is_fast_enough_is_used(monkeypatch, fastest_s, pictures, budget_s, expected):
    monkeypatch.setattr(encoder, "picture_s", lambda best, side, _: {(LARGE, 32): LARGE.work * fastest_s}[best, side])
    assert encoder.choose([LARGE, MIDDLE, SMALL], pictures, budget_s) == expected


def test_a_small_budget_is_not_spent_on_measuring(monkeypatch):
    monkeypatch.setattr(encoder, "picture_s", lambda *some: pytest.fail("measured"))
    assert encoder.choose([LARGE, SMALL], Pictures(1, 1, 32), 60.0) == SMALL


@pytest.mark.parametrize(("takes_s", "times"), [([0.1], 1), ([0.5, 0.1], 2), ([0.5] * 9, 3), ([0.7] * 9, 1)])
def test_a_moment_of_load_does_not_decide(monkeypatch, takes_s, times):
    """A picture may take 0.2 s; `takes_s` is what it takes in the first measurement, in the second, …"""
    now, calls, left = [0.0], [], [99.0, *np.repeat(takes_s, encoder.MEASURED)]  # the first batch compiles

    def encode(pictures):
        calls.append(len(pictures))
        now[0] += left.pop(0) * len(pictures)

    monkeypatch.setattr(encoder.lite, "load", lambda network, size: encode)
    monkeypatch.setattr(encoder, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: None))
    assert encoder.picture_s(LARGE, 8, 0.2) == pytest.approx(min(takes_s))
    assert len(calls) == 1 + encoder.MEASURED * times


def test_a_fit_after_another_uses_the_same_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder.packages, "installed", lambda name: name != "efficientnet_lite1")
    for network, expected in (("efficientnet_lite2", LARGE), ("efficientnet_lite1", None), ("patches", None)):
        (tmp_path / "plan.json").write_text(json.dumps({"features": {"encoder": network, "encoder_size": 192}}))
        assert encoder.of_fit(tmp_path) == expected
    assert encoder.of_fit(tmp_path / "nowhere") is None
