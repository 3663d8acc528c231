"""What learning without labels is for: two views that share what matters, and differ in what does not.

An example is a class's direction in four dimensions, and 16 further numbers that say nothing and are larger. A view has
the same direction and other numbers. Eight labelled examples are too few to tell the two kinds of numbers apart, alone;
they are the same for both arms, and are not augmented. Ten seeds, paired. PIRL's pictures have the direction in all
pixels, and noise in each.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import algorithms, models
from metapl.algorithms.byol import BYOL
from metapl.algorithms.moco import MoCo
from metapl.algorithms.pcl import PCL
from metapl.algorithms.pirl import PIRL
from metapl.algorithms.simclr import SimCLR
from metapl.algorithms.supervised import Supervised
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.types import Indices, Totals, Views

CLASSES, TOTAL, BATCH, SEEDS = 4, 256, 64, 10
SGD = Optimizer(0.05, momentum=0.9)
METHODS = [
    SimCLR(0.5, hidden=32, width=16, optimizer=SGD),
    BYOL(0.99, hidden=32, width=16, optimizer=SGD),
    MoCo(256, 0.2, 0.99, hidden=32, width=16, optimizer=SGD),
    PCL((4, 8), 20, 20, 5, queue=256, temperature=0.2, key_decay=0.99, hidden=32, width=16, optimizer=SGD),
    PIRL(64, 0.2, width=16, enlarge=True, optimizer=SGD),
]


def seen(labels, key, pictures):
    """A view of examples with these classes."""
    direction = 2.0 * jax.nn.one_hot(labels, CLASSES)
    if pictures:
        return direction[:, None, None] + 3 * jax.random.normal(key, (len(labels), 6, 6, CLASSES))
    own, other = jax.random.split(key)
    signal = direction + 0.3 * jax.random.normal(own, direction.shape)
    return jnp.concatenate([signal, 2 * jax.random.normal(other, (len(labels), 16))], axis=-1)


def accuracy(method, seed, pictures):
    """Of a network that is finetuned on eight labels, after the method's stage or without it."""
    network = models.build(MLP(hidden=(32, 32), activation="relu", init_range=0.2), CLASSES)
    labels, truth = jnp.arange(8) % CLASSES, jnp.arange(TOTAL) % CLASSES
    keys = jax.random.split(seed, 4)
    labeled = seen(labels, keys[0], pictures)

    def views(key):
        rows_key, *view_keys = jax.random.split(key, 4)
        rows = jax.random.choice(rows_key, TOTAL, (BATCH,), replace=False)
        weak, strong, more = (seen(truth[rows], own, pictures) for own in view_keys)
        indices = Indices(jnp.arange(8), rows.astype(jnp.int32), Totals(8, TOTAL))
        return Views(labeled, labels, weak, strong, labeled, more_strong=(more,), indices=indices)

    def trained(method, steps, start):
        algorithm = algorithms.build(method, network, steps)

        def step(state, key):
            view_key, key = jax.random.split(key)
            return algorithm.step(state, views(view_key), key)[0], None

        state = algorithm.init(keys[1], views(keys[2]), start)
        return algorithm.predictor(jax.lax.scan(step, state, jax.random.split(keys[3], steps))[0])

    start = trained(method, 100 if pictures else 300, None) if method else None
    weights = trained(Supervised(Optimizer(0.05, momentum=0.9)), 100, start)
    test = jnp.arange(400) % CLASSES
    logits, _ = network.apply(*weights, seen(test, jax.random.fold_in(seed, 1), pictures), train=False)
    return jnp.mean(jnp.argmax(logits, -1) == test)


@functools.cache
def accuracies(method, pictures):
    """Of all seeds."""
    seeds = jax.random.split(jax.random.key(0), SEEDS)
    return np.asarray(jax.jit(jax.vmap(lambda seed: accuracy(method, seed, pictures)))(seeds))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_it_beats_supervised_learning_where_its_idea_fits(method):
    with_stage, without = (accuracies(one, method.needs_pictures) for one in (method, None))
    gain = 100 * (with_stage - without)
    print(f"{method.name}: {without.mean():.3f} to {with_stage.mean():.3f}, ahead {(gain > 0).sum()} of {SEEDS}")
    assert gain.mean() > 5
    assert (gain > 0).sum() >= 9
