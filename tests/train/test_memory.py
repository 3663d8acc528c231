"""A method that remembers something of each training example, through the loop."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from metapl import algorithms, data
from metapl.config import Config, Stage
from metapl.data.sources.two_moons import TwoMoons
from metapl.train.loop import train
from metapl.types import Algorithm, Array, MethodConfig, Weights


@dataclass(frozen=True)
class CountVisits(MethodConfig):
    """Count how often each unlabelled example is seen."""

    name: ClassVar[str] = "count_visits"
    needs_indices: ClassVar[bool] = True


class State(NamedTuple):
    weights: Weights
    visits: Array  # [N]


def build(config, network, steps):
    del config, steps

    def init(key, views, start):
        del start
        return State(network.init(key, views.labeled), jnp.zeros(views.indices.totals.unlabeled, jnp.int32))

    def step(state, views, key):
        del key
        visits = state.visits.at[views.indices.unlabeled].add(1)
        return State(state.weights, visits), {"gradient_norm": jnp.max(visits).astype(jnp.float32)}

    return Algorithm(init, step, lambda state: Weights({"visits": state.visits}, {}))


def test_a_state_remembers_each_example(monkeypatch):
    monkeypatch.setitem(algorithms.METHODS, CountVisits, build)
    config = Config(data=TwoMoons(), stages=(Stage(CountVisits(), 31, 6, 64),))
    (dataset,) = data.load(config.data, [0], ())
    trained = train(config, [0], [dataset])
    visits = np.asarray(trained.weights.params["visits"])[0]
    assert visits.shape == (len(dataset.unlabeled),)
    assert visits.sum() == 31 * 64
    assert visits.max() == 1  # one epoch is 31 whole batches of 64, and no example comes twice
