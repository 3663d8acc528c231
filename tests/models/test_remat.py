"""What a block that is computed again keeps for its backward pass."""

import jax
import jax.numpy as jnp
import pytest

from metapl.bench import flops
from metapl.models.efficientnet import BlockPlan, EfficientNet, MBConv
from metapl.models.remat import maybe_remat

N, SIDE, FEATURES, EXPAND = 4, 8, 16, 6
X = jax.ShapeDtypeStruct((N, SIDE, SIDE, FEATURES), jnp.float32)


def block(remat: bool, expand: int = EXPAND) -> MBConv:
    plan = BlockPlan(2, "", FEATURES, size=3, stride=1, expand=expand, survival=1.0)
    return maybe_remat(MBConv, remat)(EfficientNet(survival=1.0), plan)


def forward(module: MBConv):
    variables = jax.eval_shape(lambda x: module.init(jax.random.key(0), x, False, 1.0), X)

    def run(params, stats, x):
        return module.apply({"params": params, "batch_stats": stats}, x, True, 1.0, mutable=["batch_stats"])

    return run, (variables["params"], variables["batch_stats"], X)


def kept_shapes(module: MBConv) -> list[tuple[int, ...]]:
    """The shapes of all that the backward pass gets from the forward pass, but for weights and the block's input."""
    run, arguments = forward(module)

    def backward(params, stats, x):
        return jax.vjp(lambda params, x: run(params, stats, x), params, x, has_aux=True)[1]

    shapes = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(backward, *arguments))]
    params, _, x = arguments
    for argument in jax.tree.leaves((params, x)):
        if argument.shape in shapes:
            shapes.remove(argument.shape)
    return shapes


def test_a_block_keeps_means_and_its_narrow_end():
    shapes = kept_shapes(block(remat=True))
    assert [shape for shape in shapes if shape[:3] == (N, SIDE, SIDE)] == [(N, SIDE, SIDE, FEATURES)]
    assert (N, 1, 1, FEATURES * EXPAND) in shapes, "the means of squeeze-excite"
    assert shapes.count((FEATURES * EXPAND,)) == 4, "means and variances of two norms"
    assert (N, SIDE, SIDE, FEATURES * EXPAND) in kept_shapes(block(remat=False))


def test_a_block_without_wide_channels_keeps_means_alone():
    assert not [shape for shape in kept_shapes(block(remat=True, expand=1)) if shape[:3] == (N, SIDE, SIDE)]


@pytest.mark.parametrize("expand", [1, EXPAND])
def test_what_is_kept_is_not_computed_again(expand):
    def step_flops(remat: bool) -> int:
        run, arguments = forward(block(remat, expand))
        return flops.count(jax.grad(lambda *given: jnp.sum(run(*given)[0])), *arguments)

    run, arguments = forward(block(remat=False, expand=expand))
    project = 2 * N * SIDE * SIDE * FEATURES * expand * FEATURES
    again = step_flops(remat=True) - step_flops(remat=False)
    assert 0 < again <= flops.count(run, *arguments) - (project if expand > 1 else 0)
