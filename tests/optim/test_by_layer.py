"""Learning rates by layer, frozen layers, and adapters: what each weight's update is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from metapl import models
from metapl.algorithms import learner as learners
from metapl.algorithms.losses import cross_entropy
from metapl.models.convnext import ConvNeXt
from metapl.models.efficientnet import EfficientNet
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet
from metapl.models.vit import ViT
from metapl.optim import Optimizer, build
from metapl.schema import ConfigError, validate

SMALL = ViT(patch=4, resolution=8, width=8, depth=3, heads=2)


def params(config):
    """A network's parameters, all ones."""
    shapes = jax.eval_shape(models.build(config, 3).init, jax.random.key(0), jnp.zeros((1, 32, 32, 3))).params
    return jax.tree.map(lambda leaf: np.ones(leaf.shape, np.float32), shapes)


def update(optimizer, weights):
    """The updates for a gradient of ones."""
    descent = build(optimizer, 10)
    gradient = jax.tree.map(np.ones_like, weights)
    return jax.jit(lambda: descent.update(gradient, descent.init(weights), weights)[0])()


def rates(updates):
    """The learning rate of each module, which must be one number."""
    found = {}
    for name, part in updates.items():
        (found[name],) = {round(float(-x), 6) for leaf in jax.tree.leaves(part) for x in np.unique(leaf)}
    return found


def test_a_vits_blocks_are_its_layers():
    found = rates(update(Optimizer(1.0, layer_decay=0.5), params(SMALL)))
    assert found == {
        "head": 1, "head_norm": 1, "stage0_block2": 0.5, "stage0_block1": 0.25, "stage0_block0": 0.125,
        "stem_conv": 0.0625, "stem_position": 0.0625, "stem_token": 0.0625,
    }  # fmt: skip


def test_so_are_those_of_a_stack():
    updates = update(Optimizer(1.0, layer_decay=0.5), params(dataclasses.replace(SMALL, scan=True)))
    stack = updates["stage0_blocks"]
    np.testing.assert_allclose(stack["qkv"]["kernel"][:, 0, 0], [-0.25, -0.5])
    np.testing.assert_allclose(stack["norm1"]["scale"][:, 0], [-0.25, -0.5])
    np.testing.assert_allclose(updates["stage0_block0"]["qkv"]["kernel"], -0.125)


@pytest.mark.parametrize(
    ("config", "stages"),
    [
        (ResNet(depth=18, channels=2), 4),
        (ConvNeXt(channels=2, blocks=(1, 1, 2, 1)), 4),
        (EfficientNet(width=0.05, depth=0.1, stem="cifar"), 7),
        (ResNet(depth=50, channels=2, scan=True), 4),
    ],
)
def test_stages_are_the_layers_of_the_others(config, stages):
    found = rates(update(Optimizer(1.0, layer_decay=0.5), params(config)))
    names = sorted({name.partition("_")[0] for name in found if name.startswith("stage")})
    assert len(names) == stages
    for place, stage in enumerate(names):
        of_stage = {rate for name, rate in found.items() if name.startswith(stage + "_")}
        assert of_stage == {round(0.5 ** (stages - place), 6)}
    assert found["stem_conv"] == found.get("stem_norm", found["stem_conv"]) == round(0.5 ** (stages + 1), 6)
    assert found["head"] == 1


@pytest.mark.parametrize("rule", ["sgd", "rmsprop", "lars", "adamw"])
def test_frozen_layers_do_not_move_and_have_no_state(rule):
    """Not by weight decay either; and the clipped norm is that of the gradients of the others."""
    weights = params(SMALL)
    config = Optimizer(1.0, rule=rule, momentum=0.9, weight_decay=0.1, frozen_layers=2, clip_norm=1.0)
    updates, free = update(config, weights), update(Optimizer(1.0, rule=rule, momentum=0.9, weight_decay=0.1), weights)
    for name in weights:
        still = not any(np.any(leaf) for leaf in jax.tree.leaves(updates[name]))
        assert still == (name.startswith("stem") or name == "stage0_block0"), name
        assert any(np.any(leaf) for leaf in jax.tree.leaves(free[name]))
    state = jax.tree_util.tree_leaves_with_path(build(config, 10).init(weights))
    assert not any("stem" in jax.tree_util.keystr(path) for path, _ in state)
    assert any("stage0_block1" in jax.tree_util.keystr(path) for path, _ in state)
    if rule == "sgd":
        clipped = update(Optimizer(1.0, frozen_layers=2, clip_norm=1.0), weights)
        np.testing.assert_allclose(optax.tree.norm(clipped), 1.0, rtol=1e-5)


def test_without_them_the_state_is_the_one_of_before():
    weights = params(SMALL)
    state = build(Optimizer(1.0, momentum=0.9), 10).init(weights)
    assert jax.tree.structure(state) == jax.tree.structure((optax.sgd(1.0, 0.9).init(weights),))


@pytest.mark.parametrize(
    ("settings", "config", "words"),
    [
        ({"layer_decay": 0.5}, MLP(), "need a network with a stem and stages"),
        ({"frozen_layers": 5}, SMALL, r"frozen_layers = 5 would leave nothing to learn: the network has 5 layers"),
        ({"frozen_layers": 3}, ViT(patch=4, width=8, depth=3, heads=2, scan=True), "ends inside the loop of blocks"),
    ],
)
def test_what_cannot_be_is_refused(settings, config, words):
    with pytest.raises(ConfigError, match=words):
        update(Optimizer(1.0, **settings), params(config))


def test_adamw_needs_its_first_average():
    with pytest.raises(ConfigError, match="rule 'adamw' needs a momentum above 0"):
        validate(Optimizer(rule="adamw"))


def test_adamw_is_the_papers():
    """Loshchilov & Hutter (2019), two steps by hand: decay is not part of the averages."""
    weights, gradient = {"kernel": jnp.array([2.0])}, {"kernel": jnp.array([0.5])}
    descent = build(Optimizer(0.1, rule="adamw", momentum=0.9, adam_decay=0.99, weight_decay=0.2), 10)
    state, theta = descent.init(weights), 2.0
    for _ in range(2):
        updates, state = descent.update(gradient, state, weights)
        weights = optax.apply_updates(weights, updates)
        theta -= 0.1 * (0.5 / (0.5 + 1e-8) + 0.2 * theta)  # of a constant gradient, both unbiased averages are exact
    np.testing.assert_allclose(weights["kernel"], theta, rtol=1e-6)


def gradient_of(config, optimizer):
    """A training step's gradient with random weights, for a network that is held by the optimizer."""
    network = learners.holding(models.build(config, 3), build(optimizer, 10))
    x = jax.random.normal(jax.random.key(0), (4, 8, 8, 3))
    weights = jax.jit(network.init)(jax.random.key(1), x)
    draw = np.random.default_rng(2)
    noise = jax.tree.map(lambda leaf: leaf + 0.1 * draw.normal(size=leaf.shape).astype(np.float32), weights.params)

    def loss(some):
        return cross_entropy(jnp.array([0, 1, 2, 0]), network.apply(some, weights.stats, x, train=True)[0])

    return jax.jit(jax.grad(loss))(noise)


def test_weights_that_stay_have_no_derivative():
    gradient = gradient_of(SMALL, Optimizer(frozen_layers=2))
    moves = {name: any(np.any(leaf) for leaf in jax.tree.leaves(part)) for name, part in gradient.items()}
    assert {name for name, moved in moves.items() if not moved} == {
        "stem_conv", "stem_position", "stem_token", "stage0_block0"
    }  # fmt: skip


def test_of_an_adapted_network_only_the_adapters_and_the_head_learn():
    config = ViT(patch=4, resolution=8, width=8, depth=3, heads=2, lora_rank=2)
    gradient, updates = gradient_of(config, Optimizer()), update(Optimizer(1.0, weight_decay=0.1), params(config))
    for tree in (gradient, updates):
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            names = [step.key for step in path]
            learns = names[0] in ("head", "head_norm") or any(name.endswith("_lora") for name in names)
            assert bool(np.any(leaf)) == learns, names
