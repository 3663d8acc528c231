"""EfficientNet: its sizes, its plan, stochastic depth and squeeze-excite."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl import models
from metapl.models import efficientnet
from metapl.models.efficientnet import EfficientNet, plan_blocks, resolved, widen
from metapl.models.layers import stochastic_depth

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def shapes(config, classes=1000):
    return jax.eval_shape(models.build(config, classes).init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))


@pytest.mark.parametrize(
    ("config", "classes", "count"),
    [
        (EfficientNet("b0"), 1000, 5_288_548),
        (EfficientNet("b1"), 1000, 7_794_184),
        (EfficientNet("b2"), 1000, 9_109_994),
        (EfficientNet("b3"), 1000, 12_233_232),
        (EfficientNet("b4"), 1000, 19_341_616),
        (EfficientNet("b5"), 1000, 30_389_784),
        (EfficientNet("b6"), 1000, 43_040_704),
        (EfficientNet("b7"), 1000, 66_347_960),
        (EfficientNet("l2"), 1000, 480_309_308),
        (EfficientNet("b6_wide"), 1000, 316_649_180),
        # The readings of "390 million" for B6-Wide that the settings can say (the file's docstring has all of them).
        (EfficientNet("b6_wide", depth=3.1), 1000, 398_539_760),
        (EfficientNet("b6_wide"), 18_291, 427_328_871),
        (EfficientNet("b6_wide", depth=2.2), 18_291, 391_227_591),
    ],
    ids=lambda value: f"{value.variant}-{value.depth}" if isinstance(value, EfficientNet) else str(value),
)
def test_parameter_counts(config, classes, count):
    looped = dataclasses.replace(config, scan=True)  # the same weights, traced in a fraction of the time
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes(looped, classes).params)) == count


def test_channels_are_rounded_to_eights_and_never_down_by_a_tenth():
    assert [widen(32, width) for width in (1.0, 1.1, 1.4, 4.3, 5.0)] == [32, 32, 48, 136, 160]
    assert widen(16, 0.69) == 16  # 11.04: the nearest eight, 8, is too few
    assert widen(16, 0.1) == 8


def test_the_variant_fills_what_is_left_empty():
    assert resolved(EfficientNet("b7")) == (2.0, 3.1, 600, 0.5)
    assert resolved(EfficientNet("b7", dropout=0.0, width=0.5)) == (0.5, 3.1, 600, 0.0)
    assert [EfficientNet(variant).resolution for variant in ("b0", "b7", "l2")] == [224, 600, 475]


def test_the_plan_of_b0():
    plans = plan_blocks(EfficientNet())
    assert len(plans) == 16
    assert [plan.features for plan in plans if plan.name.endswith("block0")] == [16, 24, 40, 80, 112, 192, 320]
    assert [plan.stride for plan in plans if plan.name.endswith("block0")] == [1, 2, 2, 2, 1, 2, 1]
    assert all(plan.stride == 1 for plan in plans if not plan.name.endswith("block0"))
    np.testing.assert_allclose([plan.survival for plan in plans], 1 - 0.2 * np.arange(16) / 16)


def test_small_pictures_are_halved_twice_only():
    assert [plan.stride for plan in plan_blocks(EfficientNet(stem="cifar"))].count(2) == 2


def test_l2_is_as_deep_as_it_should_be():
    assert len(plan_blocks(EfficientNet("l2"))) == 6 + 11 + 11 + 16 + 16 + 22 + 6


def test_stochastic_depth_keeps_the_mean_and_drops_whole_examples():
    x = jax.random.uniform(jax.random.key(0), (4000, 2, 2, 3), minval=0.5)
    y = np.asarray(stochastic_depth(x, 0.8, jax.random.key(1)))
    dropped = (y == 0).reshape(len(y), -1)
    assert (dropped.all(1) | ~dropped.any(1)).all()
    np.testing.assert_allclose(dropped.all(1).mean(), 0.2, atol=0.02)
    np.testing.assert_allclose(y[~dropped.all(1)], x[~dropped.all(1)] / 0.8, rtol=1e-6)
    np.testing.assert_allclose(y.mean(), x.mean(), rtol=0.03)


def test_a_block_leaves_itself_out_in_training_only():
    x = jax.random.normal(jax.random.key(0), (64, 4, 4, 8))
    plan = efficientnet.BlockPlan(0, "block", features=8, size=3, stride=1, expand=6, survival=0.5)
    rare = efficientnet.MBConv(EfficientNet(), plan)
    variables = quick_jit(rare.init, static_argnums=2)(jax.random.key(1), x, False, 0.5)

    @quick_jit
    def both_modes():
        trained, _ = rare.apply(variables, x, True, 0.5, rngs={"dropout": jax.random.key(2)}, mutable=["batch_stats"])
        return trained, rare.apply(variables, x, False, 0.5)

    trained, evaluated = both_modes()
    alone = (np.asarray(trained) == x).reshape(len(x), -1).all(1)
    assert 16 < alone.sum() < 48
    assert not (np.asarray(evaluated) == x).reshape(len(x), -1).all(1).any()


def test_squeeze_excite_is_a_quarter_of_the_blocks_inputs():
    params = shapes(EfficientNet()).params
    squeeze = params["stage5_block1"]["squeeze"]
    assert squeeze["reduce"]["kernel"].shape == (1, 1, 6 * 192, 48)
    assert squeeze["expand"]["kernel"].shape == (1, 1, 48, 6 * 192)
    assert params["stage0_block0"]["squeeze"]["reduce"]["kernel"].shape == (1, 1, 32, 8)


def test_squeeze_excite_weighs_channels_by_the_pictures_means():
    module = efficientnet.SqueezeExcite(1, jnp.dtype("float32"))
    params = {
        "reduce": {"kernel": jnp.array([1.0, 0.0]).reshape(1, 1, 2, 1), "bias": jnp.zeros(1)},
        "expand": {"kernel": jnp.array([1.0, -1.0]).reshape(1, 1, 1, 2), "bias": jnp.zeros(2)},
    }
    x = jnp.array([[1.0, 5.0], [3.0, 5.0]]).reshape(1, 2, 1, 2)  # the first channel's mean is 2
    swish = 2 / (1 + np.exp(-2))
    gates = 1 / (1 + np.exp([-swish, swish]))
    np.testing.assert_allclose(module.apply({"params": params}, x), x * gates, rtol=1e-6)


def test_padding_decides_where_strided_windows_begin():
    """The corner pixel is in TensorFlow's first window at its first place, in PyTorch's at its second."""
    x = jnp.zeros((1, 4, 4, 1)).at[0, 0, 0, 0].set(1.0)
    for padding, place in (("same", 0), ("symmetric", 1)):
        kernel = jnp.zeros((3, 3, 1, 1)).at[place, place].set(1.0)
        layer = efficientnet.conv(
            1, 3, 2, name="layer", dtype=x.dtype, padding=efficientnet._padding(EfficientNet(padding=padding), 3)
        )
        answer = layer.apply({"params": {"kernel": kernel}}, x)
        np.testing.assert_array_equal(answer[0, :, :, 0], [[1.0, 0.0], [0.0, 0.0]])


def test_first_weights():
    network = models.build(EfficientNet(depth=0.1), classes=100)
    params = quick_jit(network.init)(jax.random.key(0), jnp.zeros((1, 32, 32, 3))).params
    expand = params["stage5_block0"]["expand_conv"]["kernel"]
    np.testing.assert_allclose(np.var(expand), 2 / (6 * 112), rtol=0.05)
    assert np.abs(expand).max() < 2.3 * np.std(expand)  # cut at two deviations of what then has 0.88 of one
    depthwise = params["stage5_block0"]["depthwise_conv"]["kernel"]
    assert depthwise.shape == (5, 5, 1, 6 * 112)
    np.testing.assert_allclose(np.var(depthwise), 2 / 25, rtol=0.05)
    head = np.asarray(params["head"]["kernel"])
    assert np.abs(head).max() <= 0.1  # 1/√100
    np.testing.assert_allclose(np.var(head), 0.1**2 / 3, rtol=0.05)
