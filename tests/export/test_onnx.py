"""What is written as ONNX computes what JAX does: every network, every operator, any batch."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from flax import linen as nn
from jax import export, lax

from metapl import config as configs
from metapl import models
from metapl.augment.views import Augmentation, WeakView, eval_view
from metapl.export.onnx_file import to_onnx
from metapl.models.convnext import ConvNeXt
from metapl.models.efficientnet import EfficientNet
from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.heads import HeadGroup, Heads
from metapl.models.mlp import MLP
from metapl.models.patches import Patches
from metapl.models.reduced_teacher import ReducedTeacher
from metapl.models.resnet import ResNet
from metapl.models.side_by_side import SideBySide, Takes
from metapl.models.vit import ViT
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError
from metapl.system import runtime
from metapl.types import ModelConfig
from metapl.weights import Example
from tests.tiny_run import drawn

PATCHES = Patches(side=2, scales=(1, 2), centroids=4, components=3)
NETWORKS: list[tuple[ModelConfig, tuple[int, ...]]] = [
    (MLP((4,), activation="relu"), (5, 4, 1)),
    (WideResNet(depth=10, width=1), (8, 10, 3)),
    (ResNet(depth=18, channels=2), (40, 44, 3)),
    (EfficientNet(width=0.1, depth=0.1, remat=True), (33, 32, 3)),
    (EfficientNetLite(width=0.1, depth=0.1), (33, 32, 3)),
    (ConvNeXt(channels=4, blocks=(1, 1, 1, 1)), (33, 40, 3)),
    (ViT(patch=4, resolution=12, width=16, depth=2, heads=2, registers=2, layer_scale=0.1), (10, 12, 3)),
    (ViT(patch=4, resolution=12, width=8, depth=1, heads=2, pooling="mean"), (12, 12, 3)),
    (ReducedTeacher(hidden=4, residual=True), (3,)),
    (PATCHES, (9, 10, 1)),
    (Heads(WideResNet(depth=10), 9, mirror=True, groups=(HeadGroup(2), HeadGroup(3, (4, 2)))), (8, 10, 1)),
    (Heads(SideBySide((WideResNet(depth=10), WideResNet(depth=10, width=1))), groups=(HeadGroup(1),)), (8, 10, 3)),
    (
        SideBySide((WideResNet(depth=10), PATCHES), (Takes(12, mean=(0.5,)), Takes(6, False, deviation=(0.1,)))),
        (8, 10, 3),
    ),
]


def batch_of(shape: tuple[int, ...], dtype) -> jax.ShapeDtypeStruct:
    (batch,) = export.symbolic_shape("n")
    return jax.ShapeDtypeStruct((batch, *shape), dtype)


def compare(function, shape: tuple[int, ...], dtype=np.float32, tolerance: float = 1e-5) -> None:
    model = to_onnx(function, batch_of(shape, dtype))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(0)
    given = draw.integers(0, 256, (17, *shape)) if dtype == np.uint8 else draw.uniform(0, 1, (17, *shape))
    given = given.astype(dtype)
    expected = np.asarray(function(given))
    for count in (1, 3, 17):
        (made,) = session.run(None, {"pictures": given[:count]})
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made, expected[:count], atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize(("model", "shape"), NETWORKS, ids=lambda value: getattr(value, "name", ""))
def test_every_network_answers_the_same(model, shape, monkeypatch):
    # The way for CPUs, which is never written, takes 10 s to compile; other tests hold it against the usual one.
    monkeypatch.setattr(runtime, "on_cpus", lambda quick, usual, *args: usual(*args))
    dtype = np.uint8 if len(shape) == 3 else np.float32
    config = configs.Config(model=model)
    weights = drawn(config, 3, Example(shape, np.dtype(dtype).name))
    network, view = models.build(model, 3), eval_view(config.augmentation)
    compare(jax.jit(lambda x: network.apply(weights.params, weights.stats, view(x), train=False)[0]), shape, dtype)


def test_the_eval_view_is_written_with_its_crop_and_resize():
    view = eval_view(Augmentation(size=8, weak=WeakView(crop="resized"), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)))
    compare(view, (20, 24, 3), np.uint8, tolerance=0.02)  # a pixel may be rounded the other way: 1 / 255 / 0.2


OPERATORS = {
    "arithmetic": lambda x: jnp.tanh(x / 3 - jnp.abs(-x) ** 3) + jnp.sqrt(x) * lax.rsqrt(x + 1) + jnp.log(x + 1),
    "choices": lambda x: jnp.where((x > 0.5) | (x < 0.1) & ~(x == 0.3), lax.square(x), jnp.minimum(x, 0.4)),
    "comparisons": lambda x: jnp.where((x >= 0.7) != (x <= 0.2), x, jnp.floor(10 * x)),
    "clamp": lambda x: jnp.clip(10 * x, 2, 7) + lax.clamp(jnp.float32(0.1), x, jnp.float32(0.3)),
    "rounding": lambda x: lax.round(10 * x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "reductions": lambda x: x.max((1, 3)) + x.min((1, 3)) * x.sum((1, 3)),
    "shapes": lambda x: x.transpose(0, 3, 2, 1).reshape(x.shape[0], -1)[:, None].squeeze(1),
    "repeats": lambda x: jnp.broadcast_to(x[..., None, :], (x.shape[0], 6, 8, 2, 4)),
    "parts": lambda x: lax.slice_in_dim(lax.slice_in_dim(x, 1, 6, 2, axis=1), 3, 8, axis=2),
    "padding": lambda x: jnp.pad(x, ((0, 0), (1, 2), (0, 3), (0, 0)), constant_values=0.5),
    "repeats along the batch": lambda x: jnp.concatenate(
        [jnp.broadcast_to(jnp.arange(4.0), (x.shape[0], 6, 1, 4)), x], axis=2
    ),
    "error function": lambda x: jax.nn.gelu(x, approximate=False) + lax.erf(x) + lax.erfc(3 * x),
    "joins": lambda x: jnp.concatenate([x, 2 * x], axis=2),
    "products": lambda x: jnp.einsum("nhwc,nhvd->nwvcd", x, lax.slice_in_dim(x, 0, 2, axis=2)) @ jnp.ones((4, 2)),
    "integers": lambda x: (10 * x).astype(jnp.int32).astype(jnp.float32) + 1,
    "pooling": lambda x: nn.max_pool(x, (3, 2), (2, 1), ((1, 0), (0, 1))),
    "nested": jax.jit(lambda x: jax.nn.silu(jax.checkpoint(jax.nn.relu)(x))),
    "grouped, dilated": lambda x: lax.conv_general_dilated(
        x, jnp.ones((2, 3, 2, 4)) * jnp.arange(4.0), (2, 1), ((1, 0), (0, 2)), rhs_dilation=(1, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_mean_the_same(name):
    compare(OPERATORS[name], (6, 8, 4))


def test_the_way_for_cpus_is_not_what_is_written():
    def function(x):
        return lax.platform_dependent(x, cpu=lambda x: jnp.cumsum(x, 1), default=lambda x: 2 * x)

    model = to_onnx(function, batch_of((3,), np.float32))
    assert [node.op_type for node in model.graph.node] == ["Mul", "Identity"]


REFUSED = {
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "scan": lambda x: lax.scan(lambda carry, _: (carry * 2, None), x, None, 3)[0],
    "rounds halves": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "computed from the size of the batch": lambda x: x.reshape(-1),
    "transposed": lambda x: lax.conv_transpose(
        x[:, None, :, None], jnp.ones((1, 2, 1, 1)), (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    "does not depend on its input": lambda x: jnp.ones((2, 2)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_written_is_refused_by_its_name(why):
    with pytest.raises(ConfigError, match=why):
        to_onnx(REFUSED[why], batch_of((3,), np.float32))
