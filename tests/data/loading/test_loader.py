"""Batches on the device: epochs without replacement, streams of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.data.loading import loader, order


def resident(labeled: int, unlabeled: int) -> loader.Resident:
    return loader.Resident(jnp.arange(labeled), jnp.arange(labeled) % 3, 1000 + jnp.arange(unlabeled))


def test_a_batch_is_a_function_of_key_and_step() -> None:
    data, key = resident(10, 50), jax.random.key(0)
    jitted = jax.jit(loader.batch, static_argnums=(3, 4))
    again = [loader.batch(data, key, jnp.asarray(step), 4, 16) for step in (7, 3, 7)]
    np.testing.assert_array_equal(again[0].unlabeled, again[2].unlabeled)
    np.testing.assert_array_equal(again[0].unlabeled, jitted(data, key, jnp.asarray(7), 4, 16).unlabeled)
    assert not np.array_equal(again[0].unlabeled, again[1].unlabeled)


def test_labels_stay_with_their_examples() -> None:
    batch = loader.batch(resident(10, 50), jax.random.key(1), jnp.asarray(5), 7, 3)
    np.testing.assert_array_equal(batch.labels, batch.labeled % 3)


def test_truth_stays_with_its_examples_and_may_be_missing() -> None:
    data = resident(10, 50)
    known = data._replace(truth=(data.unlabeled % 7).astype(jnp.int32))
    batch = loader.batch(known, jax.random.key(1), jnp.asarray(5), 7, 9)
    np.testing.assert_array_equal(batch.truth, batch.unlabeled % 7)
    assert loader.batch(data, jax.random.key(1), jnp.asarray(5), 7, 9).truth is None


def test_the_labelled_set_can_stand_for_the_unlabelled_one() -> None:
    batch = loader.batch(loader.labeled_only(resident(10, 50)), jax.random.key(1), jnp.asarray(5), 4, 6)
    assert set(np.asarray(batch.unlabeled)) <= set(range(10))
    np.testing.assert_array_equal(batch.truth, batch.unlabeled % 3)
    assert not np.array_equal(batch.labeled, batch.unlabeled[:4])  # a stream of its own


@pytest.mark.parametrize(("batch_size", "total"), [(4, 10), (5, 10), (10, 10), (1, 3)])
def test_epochs_are_without_replacement_and_differ(batch_size: int, total: int) -> None:
    per_epoch, key = total // batch_size, jax.random.key(2)
    steps = jnp.arange(6 * per_epoch)
    found = jax.vmap(lambda step: loader.epoch_indices(key, step, batch_size, total))(steps)
    epochs = np.asarray(found).reshape(6, -1)
    for epoch in epochs:
        assert len(np.unique(epoch)) == len(epoch) == per_epoch * batch_size
    assert len({tuple(epoch) for epoch in epochs}) > 1 or batch_size == total  # a batch of everything has no order
    if per_epoch * batch_size < total:
        left_over = {tuple(sorted(set(range(total)) - set(epoch.tolist()))) for epoch in epochs}
        assert len(left_over) > 1


def test_a_batch_larger_than_the_data_holds_everything() -> None:
    found = np.asarray(loader.epoch_indices(jax.random.key(3), jnp.asarray(4), 11, 4))
    counts = np.bincount(found, minlength=4)
    assert counts.min() == 2
    assert counts.max() == 3


def test_the_streams_have_orders_of_their_own() -> None:
    """Both parts are equally large: the same order would give the same rows at every step."""
    data, key = resident(64, 64), jax.random.key(4)
    batches = jax.vmap(lambda step: loader.batch(data, key, step, 8, 8))(jnp.arange(200))
    left, right = np.ravel(batches.labeled), np.ravel(batches.unlabeled) - 1000
    assert np.mean(left == right) < 0.05  # by chance: 1 in 64
    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / np.sqrt(len(left))


def test_the_unlabelled_stream_does_not_hear_of_the_labelled_one() -> None:
    key = jax.random.key(5)
    one = loader.batch(resident(10, 50), key, jnp.asarray(3), 4, 16)
    other = loader.batch(resident(37, 50), key, jnp.asarray(3), 9, 16)
    np.testing.assert_array_equal(one.unlabeled, other.unlabeled)


def test_a_fixed_networks_answers_come_with_their_examples():
    data = resident(10, 50)
    stored = jax.nn.softmax(jax.random.normal(jax.random.key(0), (60, 4))).astype(jnp.float16)
    labeled, unlabeled = stored[:10], stored[10:]
    batch = loader.batch(data, jax.random.key(1), jnp.asarray(5), 7, 3, loader.PredictionsOnDevice(labeled, unlabeled))
    plain = loader.batch(data, jax.random.key(1), jnp.asarray(5), 7, 3)
    np.testing.assert_array_equal(batch.unlabeled, plain.unlabeled)
    np.testing.assert_allclose(batch.labeled_predictions, labeled[batch.labeled], atol=1e-3)
    np.testing.assert_allclose(batch.predictions, unlabeled[batch.unlabeled - 1000], atol=1e-3)
    np.testing.assert_allclose(batch.predictions.sum(-1), 1, atol=1e-6)
    assert plain.predictions is None


def test_batches_are_drawn_from_the_kept_rows_copies_included():
    rows = jnp.array([7, 7, 7, 30, 41, 49], jnp.int32)
    predictions = loader.PredictionsOnDevice(jnp.full((10, 2), 0.5), jnp.full((50, 2), 0.5), rows)
    drawn = [
        loader.batch(resident(10, 50), jax.random.key(1), jnp.asarray(step), 5, 3, predictions).unlabeled
        for step in (0, 1)
    ]
    assert sorted(np.concatenate(drawn).tolist()) == [1007, 1007, 1007, 1030, 1041, 1049]


def test_a_balanced_epoch_shows_each_class_equally_often_and_every_example() -> None:
    labels = jnp.asarray([0] * 8 + [1] * 3 + [2], jnp.int32)
    data = loader.Resident(jnp.arange(12), labels, jnp.arange(5), balanced=jnp.asarray(order.balanced(labels)))
    batches = [loader.batch(data, jax.random.key(0), jnp.asarray(step), 6, 2, balanced=True) for step in range(4)]
    assert np.bincount(np.concatenate([batch.labels for batch in batches])).tolist() == [8, 8, 8]
    assert set(np.concatenate([batch.labeled for batch in batches])) == set(range(12))
    for batch in batches:
        np.testing.assert_array_equal(batch.labels, labels[batch.labeled])
