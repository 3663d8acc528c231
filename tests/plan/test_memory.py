"""The compiler's plan of memory, and its refusals."""

import jax
import jax.numpy as jnp

from metapl.plan import memory
from metapl.types import Learner, Weights

REFUSED = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. \
Used 28.20G of 15.48G hbm. Exceeded hbm capacity by 12.72G.

Total hbm usage >= 28.72G:
    reserved        530.00M
    program          27.50G
    arguments       716.32M
"""


def test_a_refusal_says_what_was_needed():
    assert memory.refusal(REFUSED) == (int(28.2 * 2**30), int(15.48 * 2**30))
    early = "the total memory required for HLO temporaries (69.87G) exceeds available HBM (15.48G)."
    assert memory.refusal(f"RESOURCE_EXHAUSTED: Ran out of memory on HBM, {early}") == (
        int(69.87 * 2**30),
        int(15.48 * 2**30),
    )
    assert memory.refusal("RESOURCE_EXHAUSTED: no numbers") is None
    assert memory.refusal("INTERNAL: Used 3.0G of 2.0G hbm") is None


def test_a_state_is_counted_by_kind():
    def array(*shape):
        return jnp.zeros(shape)

    learner = Learner(
        {"w": array(10)}, {"m": array(2)}, (array(10), array(10)), Weights({"w": array(10)}, {"m": array(2)}), array()
    )
    found = memory.by_kind({"teacher": learner, "baseline": array()})
    assert found == {"weights": 40, "statistics": 8, "optimizer": 80, "average": 48, "other": 8}  # other: also updates


def test_the_compilers_plan_is_read():
    step = jax.jit(lambda state, x: jax.tree.map(lambda leaf: leaf + x.sum(), state), donate_argnums=0)
    state, x = {"params": jnp.zeros(1000)}, jnp.zeros(50)
    found = memory.of(step.lower(state, x).compile(), state, x)
    assert found.batch == 200
    assert 4200 <= found.arguments < 5000
    assert found.outputs < 1000  # they reuse the state's memory
    assert found.total >= found.arguments + found.temporaries
