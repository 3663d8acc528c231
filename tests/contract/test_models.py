"""What every model must do, whichever it is: a new row in the table is tested by itself.

A model that is slow at its defaults has small settings in SMALL; one that eats something else than small pictures says
so in SHAPES. A model in neither is tested as it is, on pictures.
"""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from metapl import models
from metapl.algorithms.losses import cross_entropy
from metapl.models import convolution, depthwise, efficientnet, onednn, resnet
from metapl.models.convnext import ConvNeXt
from metapl.models.efficientnet import EfficientNet
from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.models.heads import HeadGroup, Heads
from metapl.models.mlp import MLP
from metapl.models.patches import Patches
from metapl.models.reduced_teacher import ReducedTeacher
from metapl.models.resnet import ResNet
from metapl.models.side_by_side import SideBySide
from metapl.models.stacked import stack
from metapl.models.vit import ViT
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError
from metapl.types import Array, ModelConfig, Network, PyTree, Weights
from metapl.weights import load, save

SMALL = {
    WideResNet: WideResNet(depth=10, width=1),
    # With the last norms at zero, no gradient reaches the rest of a block at the first step.
    ResNet: ResNet(depth=18, channels=4, stem="cifar", zero_init=False),
    EfficientNet: EfficientNet(width=0.05, depth=0.25, stem="cifar"),
    EfficientNetLite: EfficientNetLite(width=0.05, depth=0.25, stem="cifar"),
    Patches: Patches(side=2, scales=(1, 2), centroids=4, components=3),
    Heads: Heads(WideResNet(depth=10, width=1), groups=(HeadGroup(2), HeadGroup(2, (4,)))),
    SideBySide: SideBySide((WideResNet(depth=10, width=1), WideResNet(depth=10, width=2))),
    ConvNeXt: ConvNeXt(channels=4, blocks=(1, 1, 1, 1), layer_scale=0.5),
    ViT: ViT(patch=4, resolution=12, width=16, depth=2, heads=2, registers=1, layer_scale=0.5),
}
SHAPES = {MLP: (2,), ReducedTeacher: (3,), ConvNeXt: (32, 32, 3)}
CLASSES = 3
LABELS = jnp.array([0, 1, 2, 0, 1])
DROPOUT = 0.5

# These programs run for milliseconds and compile for seconds: half as long without LLVM's optimizations.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(scope="module", autouse=True)
def quick_programs() -> Iterator[None]:
    """EfficientNets with four of their seven stages, a ResNet-18 with half of its blocks; depthwise convolutions as one
    operation instead of up to 49, which compile for seconds. (`tests/models` checks them as they are.)"""
    with (
        mock.patch.dict(resnet.BLOCKS, {18: (1, 1, 1, 1)}),
        mock.patch.object(efficientnet, "STAGES", efficientnet.STAGES[:4]),
        mock.patch.object(depthwise, "shifted_products", depthwise.convolution),
        mock.patch.object(
            convolution, "depthwise", lambda x, w, geometry: onednn.by_xla(x, w, kind="forward", geometry=geometry)
        ),
    ):
        yield


def fields(kind: type[ModelConfig]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def settings(kind: type[ModelConfig], **changes: object) -> ModelConfig:
    if "dropout" in fields(kind):
        changes = {"dropout": DROPOUT, **changes}
    return dataclasses.replace(SMALL.get(kind, kind()), **changes)


def inputs(kind: type[ModelConfig]) -> Array:
    return jax.random.normal(jax.random.key(0), (len(LABELS), *SHAPES.get(kind, (8, 8, 3))))


class Step(NamedTuple):
    """What one training step of a network sees."""

    logits: Array
    stats: PyTree
    gradient: PyTree


@functools.cache
def start(kind: type[ModelConfig]) -> tuple[PyTree, PyTree]:
    return quick_jit(models.build(settings(kind), CLASSES).init)(jax.random.key(1), inputs(kind))


@functools.cache
def compiled(config: ModelConfig):
    network = models.build(config, CLASSES)

    @quick_jit
    def step(params, stats, x, key):
        def loss(params):
            logits, new_stats = network.apply(params, stats, x, train=True, key=key)
            return cross_entropy(LABELS, logits), (logits, new_stats)

        gradient, (logits, new_stats) = jax.grad(loss, has_aux=True)(params)
        return Step(logits, new_stats, gradient)

    return step


def train_step(kind: type[ModelConfig], seed: int = 2, **changes: object) -> Step:
    return compiled(settings(kind, **changes))(*start(kind), inputs(kind), jax.random.key(seed))


@functools.cache
def evaluator(config: ModelConfig):
    network = models.build(config, CLASSES)
    return quick_jit(lambda params, stats, x: network.apply(params, stats, x, train=False))


def program(network: Network, kind: type[ModelConfig]) -> str:
    apply = functools.partial(network.apply, train=True)
    return str(jax.make_jaxpr(apply)(*start(kind), inputs(kind), key=jax.random.key(2)))


def all_leaves(check, *trees: PyTree) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda *leaves: bool(check(*leaves)), *trees)))


every_model = pytest.mark.parametrize("kind", models.MODELS, ids=lambda kind: kind.name)


def models_with(field: str, there: bool = True):
    kinds = [kind for kind in models.MODELS if (field in fields(kind)) == there]
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)


@every_model
def test_both_modes_answer_and_only_training_moves_the_statistics(kind):
    params, stats = start(kind)
    answer, same_stats = evaluator(settings(kind))(params, stats, inputs(kind))
    trained = train_step(kind)
    assert answer.shape == trained.logits.shape == (len(LABELS), CLASSES)
    assert np.isfinite(answer).all()
    assert np.isfinite(trained.logits).all()
    assert all_leaves(np.array_equal, same_stats, stats)
    assert jax.tree.structure(trained.stats) == jax.tree.structure(stats)
    assert all_leaves(lambda old, new: np.isfinite(new).all() and np.any(old != new), stats, trained.stats)


@pytest.mark.parametrize("kind", [kind for kind in models.MODELS if kind is not Heads], ids=lambda kind: kind.name)
def test_the_classifier_turns_features_into_logits(kind):
    """Heads have several classifiers, and average what these predict."""
    network, (params, stats) = models.build(settings(kind), CLASSES), start(kind)

    @functools.partial(quick_jit, static_argnums=0)
    def run(train):
        functions, key = (network.features, network.apply), jax.random.key(2)
        return [function(params, stats, inputs(kind), train=train, key=key) for function in functions]

    *_, classifier = (params[name] for name in sorted(params) if name == "head" or name.startswith("Dense_"))
    for train in (False, True):
        (features, feature_stats), (logits, logit_stats) = run(train)
        np.testing.assert_allclose(features @ classifier["kernel"] + classifier["bias"], logits, rtol=1e-4, atol=1e-5)
        assert all_leaves(np.array_equal, feature_stats, logit_stats)


@every_model
def test_all_that_is_kept_is_float32(kind):
    answer, _ = evaluator(settings(kind))(*start(kind), inputs(kind))
    assert all_leaves(lambda leaf: leaf.dtype == jnp.float32, (start(kind), train_step(kind), answer))


@every_model
def test_the_gradient_is_finite_and_reaches_every_weight(kind):
    gradient = train_step(kind).gradient
    assert all_leaves(lambda leaf: np.isfinite(leaf).all() and np.any(leaf != 0), gradient)


@every_model
def test_forward_mode_agrees_with_the_gradient(kind):
    """The feedback of Meta Pseudo Labels differentiates the student in forward mode."""
    params, stats = start(kind)
    network, gradient = models.build(settings(kind), CLASSES), train_step(kind).gradient

    @quick_jit
    def derivative(direction):
        def loss(params):
            key = jax.random.key(2)
            return cross_entropy(LABELS, network.apply(params, stats, inputs(kind), train=True, key=key)[0])

        return jax.jvp(loss, (params,), (direction,))[1]

    squares = sum(float(np.sum(np.square(leaf))) for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(derivative(gradient), squares, rtol=1e-3)


@every_model
def test_evaluation_looks_at_one_example_at_a_time(kind):
    evaluate, (params, _), x = evaluator(settings(kind)), start(kind), inputs(kind)
    stats = train_step(kind).stats  # not the first ones, which leave the activations as they are
    together, _ = evaluate(params, stats, x)
    alone = jnp.concatenate([evaluate(params, stats, x[i : i + 1])[0] for i in range(len(x))])
    np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-5)
    assert np.array_equal(evaluate(params, stats, x)[0], together)


@models_with("dropout")
def test_dropout_drops_in_training_and_its_key_decides_what(kind):
    dropped = train_step(kind).logits
    assert np.array_equal(dropped, train_step(kind).logits)
    assert not np.allclose(dropped, train_step(kind, seed=3).logits, rtol=1e-3)
    assert not np.allclose(dropped, train_step(kind, dropout=0.0).logits, rtol=1e-3)


@models_with("dropout")
def test_the_twin_with_another_dropout_differs_in_nothing_else(kind):
    twin = models.build(settings(kind), CLASSES).with_dropout(0.0)
    assert program(twin, kind) == program(models.build(settings(kind, dropout=0.0), CLASSES), kind)
    assert program(twin, kind) != program(models.build(settings(kind), CLASSES), kind)
    with pytest.raises(ConfigError, match=r"dropout takes a number below 1, got 1\.0"):
        twin.with_dropout(1.0)


@models_with("dropout", there=False)
def test_a_model_without_dropout_says_so(kind):
    with pytest.raises(ConfigError, match=f"the model {kind.name} has no dropout, so its rate cannot be set to 0.1"):
        models.build(settings(kind), CLASSES).with_dropout(0.1)


@models_with("precision")
def test_bfloat16_is_for_what_is_not_kept(kind):
    full, half = train_step(kind), train_step(kind, precision="bfloat16")
    assert all_leaves(lambda leaf: leaf.dtype == jnp.float32, half)
    assert not np.allclose(half.logits, full.logits, rtol=1e-5)  # or else nothing was computed in it
    np.testing.assert_allclose(half.logits, full.logits, atol=0.1 * np.std(full.logits) + 0.02)
    fresh = jax.eval_shape(
        models.build(settings(kind, precision="bfloat16"), CLASSES).init, jax.random.key(0), inputs(kind)
    )
    assert all_leaves(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), fresh, start(kind))


@models_with("remat")
def test_computing_activations_twice_gives_the_same_step(kind):
    once, twice = train_step(kind), train_step(kind, remat=True)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), once, twice)
    assert "remat" in program(models.build(settings(kind, remat=True), CLASSES), kind)
    assert "remat" not in program(models.build(settings(kind), CLASSES), kind)


DEEP = {
    WideResNet: {"depth": 22},
    ResNet: {"depth": 50},
    EfficientNet: {"depth": 0.75},
    EfficientNetLite: {"depth": 0.75},
    ConvNeXt: {"blocks": (1, 1, 3, 1)},
    ViT: {"depth": 3},
}  # enough blocks for a loop


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Weights that differ from block to block."""
    return np.random.default_rng(list(name.encode())).standard_normal(shape, np.float32)


def flattened(weights) -> dict[str, Array]:
    return flatten_dict({"params": weights[0], "batch_stats": weights[1]}, sep="/")


def unflattened(flat) -> Weights:
    tree = unflatten_dict(flat, sep="/")
    return Weights(tree["params"], tree.get("batch_stats", {}))


@models_with("scan")
def test_files_do_not_know_of_loops(kind, tmp_path):
    kinds = [settings(kind, scan=scan, **DEEP[kind]) for scan in (False, True)]
    likes = [jax.eval_shape(models.build(c, CLASSES).init, jax.random.key(0), inputs(kind)) for c in kinds]
    single, stacked = map(flattened, likes)
    assert len(stacked) < len(single)
    flat = {name: drawn(name, leaf.shape) for name, leaf in single.items()}
    both = [unflattened(stack(flat, flattened(like))) for like in likes]
    for number, weights in enumerate(both):
        save(tmp_path / str(number), weights, {}, ["a", "b", "c"])
        for like, expected in zip(likes, both, strict=True):
            loaded, note = load(tmp_path / str(number), like)
            assert not note
            jax.tree.map(np.testing.assert_array_equal, loaded, expected)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


@every_model
def test_its_settings_say_what_each_field_does(kind):
    body = ast.parse(inspect.getsource(inspect.getmodule(kind))).body
    described = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == kind.__name__).body
    for field, after in zip(described, [*described[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and "ClassVar" not in ast.unparse(field.annotation):
            assert isinstance(after, ast.Expr), f"{kind.__name__}.{field.target.id} has no docstring"
