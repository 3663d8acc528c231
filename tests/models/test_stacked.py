"""Equal blocks as a loop: the same numbers as one after another, for every network's own block."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict

from metapl.models import efficientnet, resnet, wide_resnet
from metapl.models.remat import maybe_remat
from metapl.models.stacked import chain, stack, unstack

X = jax.random.normal(jax.random.key(0), (4, 4, 4, 8))
NAMES = ["stage2_block1", "stage2_block2", "stage2_block3"]
PLAN = efficientnet.BlockPlan(2, "", features=8, size=3, stride=1, expand=2, survival=1.0)
BLOCKS = {
    "wide_resnet": (wide_resnet.WideBlock, (wide_resnet.WideResNet(), 8, 1), ()),
    "resnet": (resnet.ResidualBlock, (resnet.ResNet(depth=18), 8, 1), ()),
    "efficientnet": (efficientnet.MBConv, (efficientnet.EfficientNet(survival=1.0), PLAN), (1.0, 1.0, 1.0)),
}


class Blocks(nn.Module):
    make: functools.partial
    settings: tuple[float, ...]
    scan: bool

    @nn.compact
    def __call__(self, x, train):
        return chain(self.make, NAMES, x, train, scan=self.scan, settings=self.settings)


def noise(name, shape):
    """Other weights for each block; scales are not zero, where blocks would be their shortcuts alone."""
    return np.random.default_rng(list(name.encode())).standard_normal(shape, np.float32)


def shapes(module):
    return flatten_dict(jax.eval_shape(lambda: module.init(jax.random.key(0), X, False)), sep="/")


@pytest.mark.parametrize(
    ("name", "remat"), [("wide_resnet", False), ("wide_resnet", True), ("resnet", False), ("efficientnet", True)]
)
def test_a_loop_gives_the_same_answers_statistics_and_gradients(name, remat):
    block, args, settings = BLOCKS[name]
    make = functools.partial(maybe_remat(block, remat), *args)
    single, loop = (Blocks(make, settings, scan) for scan in (False, True))
    like, stacked_like = shapes(single), shapes(loop)
    assert len(stacked_like) == len(like) / len(NAMES)
    flat = {leaf: noise(leaf, value.shape) for leaf, value in like.items()}

    def outcome(module, variables):
        def loss(params):
            some = {"params": params, "batch_stats": variables["batch_stats"]}
            y, changed = module.apply(some, X, True, mutable=["batch_stats"])
            return jnp.mean(jnp.sin(y)), (y, changed)

        gradient, (y, changed) = jax.grad(loss, has_aux=True)(variables["params"])
        return y, flatten_dict({"gradient": gradient, **changed}, sep="/")

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def both():
        return [
            outcome(module, unflatten_dict(stack(flat, some), sep="/"))
            for module, some in ((single, like), (loop, stacked_like))
        ]

    (y, expected), (looped, got) = both()
    np.testing.assert_allclose(looped, y, rtol=1e-4, atol=1e-5)
    assert unstack(got).keys() == expected.keys()
    for leaf, value in unstack(got).items():
        np.testing.assert_allclose(value, expected[leaf], rtol=1e-3, atol=1e-5, err_msg=leaf)


class Affine(nn.Module):
    @nn.compact
    def __call__(self, x, train, setting):
        return 2 * x + setting * self.param("scale", nn.initializers.ones, ())


@pytest.mark.parametrize("scan", [False, True])
def test_each_block_gets_its_own_setting_in_order(scan):
    module = Blocks(Affine, (1.0, 10.0, 100.0), scan)
    variables = module.init(jax.random.key(0), jnp.zeros(()), False)
    assert module.apply(variables, jnp.zeros(()), False) == 124


def test_two_blocks_make_a_loop_and_one_does_not():
    class Few(nn.Module):
        names: tuple[str, ...]

        @nn.compact
        def __call__(self, x):
            return chain(Affine, self.names, x, True, scan=True, settings=[1.0] * len(self.names))

    for names, found in ((NAMES[:1], {"stage2_block1"}), (NAMES[:2], {"stage2_blocks"}), ((), set())):
        variables = Few(tuple(names)).init(jax.random.key(0), jnp.zeros(()))
        assert variables.get("params", {}).keys() == found


def test_blocks_are_drawn_apart():
    module = Blocks(functools.partial(wide_resnet.WideBlock, wide_resnet.WideResNet(), 8, 1), (), scan=True)
    kernels = module.init(jax.random.key(0), X, False)["params"]["stage2_blocks"]["conv1"]["kernel"]
    assert not np.allclose(kernels[0], kernels[1])
    assert np.isclose(np.std(kernels), np.sqrt(2 / (9 * 8)), rtol=0.15)  # fan-out of one block, not of the stack
