"""PCL's steps against its equations: before, at and after a clustering; k-means against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from metapl import optim
from metapl.algorithms import pcl
from metapl.config import Stage
from metapl.schema import ConfigError, validate
from metapl.types import Indices, Totals
from tests.algorithms.by_hand import RATE, assert_close, dense, descended, unit
from tests.algorithms.tiny import hidden_layer, tiny_network, tiny_views

CONFIG = pcl.PCL(
    (3, 2), 2, 1, 4, queue=12, temperature=0.5, key_decay=0.7, hidden=6, width=4, optimizer=optim.Optimizer(RATE)
)
ROWS = np.array([3, 0, 8, 1, 9, 2, 5, 7])


def projections(params, x):
    g = params["projector"]
    return [
        unit(row) for row in dense(g["dense1"], jax.nn.relu(dense(g["dense0"], hidden_layer(params["network"], x))))
    ]


def views():
    seen = tiny_views()
    indices = Indices(jnp.arange(4), jnp.asarray(ROWS), Totals(4, 10))
    return seen._replace(more_strong=(seen.weak - 0.3,), indices=indices)


def test_steps_by_hand():
    seen = views()
    algorithm = pcl.build(CONFIG, tiny_network(), 10)
    state = jax.jit(algorithm.init)(jax.random.key(0), seen, None)

    def loss(params, positives, queue, prototypes):
        total = 0.0
        for i, (q, positive) in enumerate(zip(projections(params, seen.strong), positives, strict=True)):
            own = jnp.exp(q @ positive / 0.5)
            total -= jnp.log(own / (own + jnp.sum(jnp.exp(queue @ q / 0.5)))) / 8
            for one in prototypes:
                near = jnp.exp(one.centres @ q / one.scatter)
                total -= jnp.log(near[one.cluster[ROWS[i]]] / sum(near)) / 8 / 2
        return total

    for k in range(4):
        after, metrics = jax.jit(algorithm.step)(state, seen, jax.random.key(k))
        positives = jax.jit(projections)(state.keys.params, seen.weak - 0.3)
        clustered = k in (1, 3)  # from step 1 on, every second one
        for old, new in zip(state.prototypes, after.prototypes, strict=True):
            assert np.array_equal(old.cluster, new.cluster) != clustered or not np.array_equal(old.centres, new.centres)
            if not clustered:
                jax.tree.map(np.testing.assert_array_equal, old, new)
        told = state.queries.params, positives, state.queue, after.prototypes if k else ()
        queries = descended(told[0], loss, *told[1:])
        assert_close(after.queries.params, queries)
        np.testing.assert_allclose(
            metrics["contrast_loss"] + metrics["prototype_loss"], jax.jit(loss)(*told), rtol=1e-4
        )
        assert (metrics["prototype_loss"] == 0) == (k == 0)
        assert_close(after.keys.params, jax.tree.map(lambda a, b: 0.7 * a + 0.3 * b, state.keys.params, queries))
        assert_close(after.queue, np.stack([*positives, *np.asarray(state.queue)[:4]]))
        expected = np.array(state.memory)
        expected[ROWS] = positives
        assert_close(after.memory, expected)
        state = after


def test_k_means_finds_blobs_and_their_scatter():
    key, means = jax.random.key(0), jnp.eye(4)[:3]
    truth = jnp.arange(90) % 3
    noise = jnp.array([0.02, 0.05, 0.1])[truth][:, None] * jax.random.normal(key, (90, 4))
    memory = jax.vmap(unit)(means[truth] + noise)
    start = jax.jit(lambda memory, key: pcl.k_means(CONFIG, memory, 3, key))
    found = max(  # from several starts: k-means may begin with two examples of one blob
        (start(memory, jax.random.key(seed)) for seed in range(6)),
        key=lambda found: adjusted_rand_score(truth, found.cluster),
    )
    assert adjusted_rand_score(truth, found.cluster) == 1
    assert float(found.scatter.mean()) == pytest.approx(0.5, rel=1e-5)
    for blob in range(3):
        own = memory[truth == blob]
        (cluster,) = set(np.asarray(found.cluster[truth == blob]).tolist())
        np.testing.assert_allclose(found.centres[cluster], unit(own.sum(0)), atol=1e-5)
    spreads = [
        float(jnp.linalg.norm(memory[found.cluster == j] - found.centres[j], axis=-1).mean() / np.log(30 + 10))
        for j in range(3)
    ]
    np.testing.assert_allclose(found.scatter, 0.5 * np.array(spreads) / np.mean(spreads), rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"clusters": (8, 0)}, "clusters takes numbers of at least 2"), ({"queue": 63}, "queue = 63 holds less than")],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        validate(Stage(pcl.PCL(**settings), unlabeled_batch=64))


def test_more_clusters_than_examples_are_refused():
    algorithm = pcl.build(pcl.PCL((11,)), tiny_network(), 10)
    with pytest.raises(ConfigError, match="there are only 10 unlabelled examples; take fewer clusters"):
        algorithm.init(jax.random.key(0), views(), None)
