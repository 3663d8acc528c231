"""What is chosen for pictures, classes and time."""

import numpy as np
import pytest

from metapl.fit import choose
from metapl.fit.budget import Probe
from metapl.fit.choose import DataSummary
from metapl.fit.request import Request


def data(side: int = 32, counts: tuple[int, ...] = (50, 50), unlabeled: int = 1000) -> DataSummary:
    return DataSummary(side, np.array(counts), unlabeled)


@pytest.fixture(autouse=True)
def a_machine(monkeypatch):
    monkeypatch.setattr(choose.peak, "matmul_gflops", lambda: {"xla": 100.0})


def at(step_s: float):
    return lambda choice: Probe(1.0, step_s)


def test_more_time_buys_a_larger_network_and_more_steps():
    chosen = [choose.plan(Request(), data(), at(0.01), left_s).choice for left_s in (120, 1800, 72_000)]
    work = [choose.WORK[choice.network] for choice in chosen]
    assert work == sorted(work)
    assert work[0] < work[-1]
    assert chosen[0].steps < chosen[1].steps


def test_steps_fill_the_budget_and_no_more():
    choice = choose.plan(Request(network="wrn-10-1", size=32), data(), at(0.02), 600).choice
    ratio = 2 + 1.5 * (2 + 3 * choice.unlabeled_batch / choice.labeled_batch)
    assert 400 < choice.steps * 0.02 * (ratio + 0.2) + 6 <= 0.9 * 600


def test_a_network_that_turns_out_too_slow_is_exchanged():
    seen = []

    def measure(choice):
        seen.append((choice.network, choice.size))
        return Probe(1.0, 10.0 if len(seen) == 1 else 0.001)

    choice = choose.plan(Request(), data(64), measure, 72_000).choice
    assert len(seen) == 2
    assert (choice.network, choice.size) == seen[1]


def test_large_budgets_end_where_more_changes_little():
    plan = choose.plan(Request(), data(8), at(1e-4), 72_000)
    assert plan.choice.network == "mlp"
    assert plan.choice.steps == 3125  # a thousand epochs
    assert any("not used up" in reason for reason in plan.reasons)


@pytest.mark.parametrize(
    ("counts", "sampling", "adjusted"),
    [((50, 50), "epochs", False), ((50, 10), "epochs", True), ((500, 3), "balanced", False)],
)
def test_unequal_classes_are_evened_out_one_way_or_the_other(counts, sampling, adjusted):
    plan = choose.plan(Request(steps=10), data(counts=counts), at(1.0), 0.0)
    assert plan.choice.sampling == sampling
    assert bool(plan.choice.prior) == adjusted
    assert any("times the pictures of the smallest" in reason for reason in plan.reasons) == (counts[0] != counts[1])
