"""A strong view that learns, through the loop: any method can have it, and each seed has its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import config as configs
from metapl import data
from metapl.schema import ConfigError
from metapl.train import learned_views
from metapl.train.loop import Hooks, train

TEXT = """
data = {name = "digits", split = "digits@40#0"}
model = {name = "mlp", hidden = [8]}
log_every_steps = 6
[augmentation]
strong = {name = "ctaugment", bins = 3}
[[stages]]
steps = 6
labeled_batch = 8
unlabeled_batch = 8
"""


def trained(method: str, seeds: list[int]):
    config = configs.parse(TEXT + f'method.name = "{method}"\n', "test")
    datasets = data.load(config.data, seeds, ())
    snapshots, reports = [], []
    hooks = Hooks(between=lambda snapshot: snapshots.append(jax.tree.map(np.asarray, snapshot.state)))
    hooks = hooks._replace(watch=lambda stage, step, metrics: reports.append(metrics))
    result = train(config, seeds, datasets, hooks)
    return result, snapshots, reports


def test_ratings_learn_and_each_seed_has_its_own():
    both, snapshots, reports = trained("fixmatch", [3, 4])
    ratings = snapshots[-1].memory
    assert ratings.shape[0] == 2
    assert (ratings[0] != ratings[1]).any()
    # A network that knows nothing sees the right class with a chance of about 0.1: ratings fall from 1.
    assert ratings.min() < 0.99
    assert ratings.max() <= 1
    assert 0 < float(reports[-1]["rated_closeness"][0]) < 1
    alone, one, _ = trained("fixmatch", [4])
    np.testing.assert_allclose(one[-1].memory[0], ratings[1], rtol=1e-5)
    for ours, theirs in zip(jax.tree.leaves(alone.weights), jax.tree.leaves(both.weights), strict=True):
        np.testing.assert_allclose(ours[0], theirs[1], rtol=1e-4, atol=1e-6)


def test_closeness_is_one_minus_half_the_distance():
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    labels = jnp.asarray([0, 1, 2, 1, 0])
    p = np.asarray(jax.nn.softmax(logits))
    distance = np.abs(p - np.eye(3)[np.asarray(labels)]).sum(-1)
    np.testing.assert_allclose(learned_views.closeness(logits, labels), 1 - distance / 2, rtol=1e-5)


def test_a_stage_without_labels_is_refused():
    stages = 'method.name = "simclr"\n[[stages]]\nmethod.name = "supervised"\n'
    with pytest.raises(ConfigError, match="ctaugment learns from labelled pictures, and simclr uses no labels"):
        configs.parse(TEXT + stages, "test")
