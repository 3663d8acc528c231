import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.augment import views
from metapl.augment.randaugment import RandAugment
from metapl.augment.views import Augmentation, WeakView
from metapl.config import KINDS
from metapl.schema import ConfigError, from_dict, to_dict, validate
from metapl.types import Batch
from tests.augment.sample_pictures import photographs

PICTURES = photographs()
LABELS = jnp.arange(4, dtype=jnp.int32)
BATCH = Batch(jnp.asarray(PICTURES[:4]), LABELS, jnp.asarray(PICTURES[4:]))
KEY = jax.random.key(0)
STILL = WeakView(flip=False, shift_pixels=0)


compiled = functools.cache(lambda config: jax.jit(views.build(config)))


def views_of(config, batch=BATCH, key=KEY):
    return compiled(config)(batch, key)


def test_points_get_jitter_and_nothing_else():
    points = jax.random.normal(jax.random.key(1), (5, 2))
    batch = Batch(points, jnp.zeros(5, jnp.int32), points + 1)
    seen = views.build(Augmentation(jitter=0.5))(batch, KEY)
    np.testing.assert_array_equal(seen.labeled, points)
    np.testing.assert_array_equal(seen.weak, points + 1)
    np.testing.assert_array_equal(seen.strong, points + 1 + 0.5 * jax.random.normal(KEY, (5, 2)))
    np.testing.assert_array_equal(views.eval_view(Augmentation(jitter=0.5))(points), points)


@pytest.mark.parametrize(("parts", "at_once"), [(2, 0), (1, 5)])
def test_views_in_parts_are_of_the_same_pictures_in_the_same_order(parts, at_once):
    config = Augmentation(weak=STILL, strong=RandAugment(ops=("invert",), layers=1), at_once=at_once)
    parts = jax.jit(views.build(config, parts))(BATCH, KEY)
    labeled, weak = (np.asarray(some) / 127.5 - 1 for some in (BATCH.labeled, BATCH.unlabeled))
    np.testing.assert_allclose(parts.labeled, labeled, atol=1e-5)
    np.testing.assert_allclose(parts.weak, weak, atol=1e-5)
    itself, inverted = (np.isclose(parts.strong, some, atol=1e-5).all((1, 2, 3)) for some in (weak, -weak))
    assert (itself ^ inverted).all()
    assert itself.any()
    assert inverted.any()


@pytest.mark.parametrize(("at_once", "parts", "loops"), [(0, 1, []), (5, 1, [3]), (5, 2, [2, 3]), (12, 1, [])])
def test_views_of_no_more_pictures_than_allowed_are_made_at_a_time(at_once, parts, loops):
    """4 labelled and 12 unlabelled pictures."""
    config = Augmentation(weak=STILL, strong=RandAugment(ops=("invert",), layers=1), at_once=at_once)
    program = jax.make_jaxpr(views.build(config, parts))(BATCH, KEY)
    lengths = (each.params["length"] for each in program.eqns if each.primitive.name == "scan")
    assert [length for length in lengths if length > 1] == loops  # RandAugment's own loop has one layer


def test_parts_of_a_batch_are_equal():
    assert [views.parts_of(12, fewest) for fewest in (0.5, 1.2, 2.4, 5, 7)] == [1, 2, 3, 6, 12]


def test_pictures_come_out_normalised():
    seen = views_of(Augmentation())
    assert (seen.labeled.shape, seen.weak.shape, seen.strong.shape) == (
        (4, 32, 32, 3),
        (12, 32, 32, 3),
        (12, 32, 32, 3),
    )
    np.testing.assert_array_equal(seen.labels, LABELS)
    for view in (seen.labeled, seen.weak, seen.strong):
        assert view.dtype == jnp.float32
        assert view.min() >= -1
        assert view.max() <= 1
        # Every value is one of the 256 that pictures have.
        np.testing.assert_allclose((view + 1) * 127.5, jnp.round((view + 1) * 127.5), atol=1e-3)


def test_the_eval_view_is_the_picture_itself():
    config = Augmentation(mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))
    expected = (PICTURES / 255.0 - np.array(config.mean)) / np.array(config.std)
    np.testing.assert_allclose(views.eval_view(config)(jnp.asarray(PICTURES)), expected, rtol=1e-5, atol=1e-6)


def test_without_flips_and_shifts_the_weak_view_is_the_eval_view():
    config = Augmentation(weak=STILL, strong=RandAugment(layers=1, ops=("invert",), probability=1.0))
    seen = views_of(config)
    np.testing.assert_allclose(seen.weak, views.eval_view(config)(BATCH.unlabeled), rtol=1e-6)
    np.testing.assert_allclose(seen.labeled, views.eval_view(config)(BATCH.labeled), rtol=1e-6)


def test_the_strong_view_is_made_from_the_weak_one():
    seen = views_of(Augmentation(strong=RandAugment(layers=1, ops=("invert",), probability=1.0)))
    np.testing.assert_allclose(seen.strong, -seen.weak, atol=1e-6)
    plain = views.eval_view(Augmentation())(BATCH.unlabeled)
    assert (seen.weak != plain).any()


def test_labelled_pictures_have_a_strong_view_made_from_their_weak_one():
    seen = views_of(Augmentation(strong=RandAugment(layers=1, ops=("invert",), probability=1.0)))
    np.testing.assert_allclose(seen.labeled_strong, -seen.labeled, atol=1e-6)
    drawn = views_of(Augmentation(), Batch(BATCH.labeled, LABELS, BATCH.labeled))
    assert (drawn.labeled_strong != drawn.strong).any()


def test_a_view_that_nobody_looks_at_is_not_computed():
    build = views.build(Augmentation())
    shown = jax.jit(lambda batch, key: build(batch, key)._replace(labeled_strong=None))
    whole = jax.jit(build)
    least = jax.jit(lambda batch, key: build(batch, key).weak)
    flops = [f.lower(BATCH, KEY).compile().cost_analysis()["flops"] for f in (least, shown, whole)]
    assert flops[0] < 0.5 * flops[1] < 0.5 * flops[2]


def test_a_method_gets_as_many_views_as_it_declares_and_the_first_ones_stay():
    config = Augmentation()
    alone, several = compiled(config)(BATCH, KEY), jax.jit(views.build(config, number=views.Counts(3, 2)))(BATCH, KEY)
    assert (len(several.all_weak), len(several.all_strong)) == (3, 2)
    assert alone.more_weak == alone.more_strong == ()
    for name in ("labeled", "weak", "strong", "labeled_strong"):
        np.testing.assert_array_equal(getattr(several, name), getattr(alone, name))
    drawn = [np.asarray(view).tobytes() for view in (*several.all_weak, *several.all_strong)]
    assert len(set(drawn)) == 5


def test_labelled_and_unlabelled_pictures_are_moved_apart():
    same = Batch(BATCH.labeled, LABELS, BATCH.labeled)
    seen = views_of(Augmentation(strong=RandAugment(layers=0)), same)
    assert (seen.labeled != seen.weak).any()


def test_normalisation_is_the_same_compiled_or_not():
    config = Augmentation(mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
    levels = jnp.broadcast_to(jnp.arange(256, dtype=jnp.uint8)[:, None], (256, 3))
    normalize = functools.partial(views.normalize, config)
    np.testing.assert_array_equal(normalize(levels), jax.jit(normalize)(levels))


def test_large_pictures_are_cropped_and_resized():
    config = Augmentation(
        size=20, weak=WeakView(crop="resized"), strong=RandAugment(layers=1, ops=("invert",), probability=1.0)
    )
    seen = views_of(config)
    assert (seen.labeled.shape, seen.strong.shape) == ((4, 20, 20, 3), (12, 20, 20, 3))
    assert views.eval_view(config)(BATCH.unlabeled).shape == (12, 20, 20, 3)


def test_views_are_a_function_of_batch_and_key():
    once, again, other = (views_of(Augmentation(), key=jax.random.key(seed)) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, once, again)
    for name in ("labeled", "weak", "strong"):
        assert (getattr(once, name) != getattr(other, name)).any(), name


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Augmentation(mean=(0.5, 0.5)), "mean and std need the same number of numbers, got 2 and 1"),
        (Augmentation(std=(0.0,)), "std takes numbers above 0"),
        (Augmentation(size=224), "'resized' or 'centre', got 224 and 'shift'"),
        (Augmentation(weak=WeakView(crop="resized")), "'resized' or 'centre', got 0 and 'resized'"),
        (Augmentation(jitter=-1.0), "jitter takes a number of at least 0"),
    ],
)
def test_what_cannot_be_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        validate(config)


def test_config_goes_to_a_file_and_back():
    config = Augmentation(
        jitter=0.1, mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0), weak=STILL, strong=RandAugment(layers=3)
    )
    assert from_dict(Augmentation, to_dict(config), KINDS) == config
    assert from_dict(Augmentation, {"jitter": 0.1}, KINDS) == Augmentation(jitter=0.1)
