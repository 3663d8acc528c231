"""FLOPs counted by hand, and compared with XLA's own count where both mean the same."""

import jax
import jax.numpy as jnp
import pytest

from metapl.bench.flops import count


def zeros(*shape: int) -> jax.Array:
    return jnp.zeros(shape)


def convolve(x: jax.Array, kernel: jax.Array, stride: int = 1, padding: str = "VALID", groups: int = 1) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def test_a_matrix_product_and_a_batch_of_them():
    assert count(jnp.dot, zeros(3, 5), zeros(5, 7)) == 2 * 3 * 5 * 7
    assert count(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), zeros(4, 3, 5), zeros(4, 5, 7)) == 4 * 2 * 3 * 5 * 7


def test_each_gradient_costs_as_much_as_the_product():
    function = jax.grad(lambda a, b: jnp.dot(a, b).sum(), argnums=(0, 1))
    assert (
        count(function, zeros(3, 5), zeros(5, 7)) == 2 * 2 * 3 * 5 * 7
    )  # the gradient of a sum: the product itself is not needed


def test_element_wise_work_is_not_counted():
    assert count(lambda a: jnp.exp(a) * a + a.sum(), zeros(100)) == 0


def with_own_gradient(function):
    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(lambda primals, tangents: (function(*primals), function(*tangents)))
    return wrapped


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint, with_own_gradient])
def test_work_inside_calls_counts(wrap):
    assert count(wrap(jnp.dot), zeros(3, 5), zeros(5, 7)) == 2 * 3 * 5 * 7


def test_a_scan_counts_as_often_as_it_runs_and_a_branch_once():
    scan = lambda a: jax.lax.scan(lambda carry, _: (carry @ a, None), a, length=6)  # noqa: E731
    assert count(scan, zeros(4, 4)) == 6 * 2 * 4**3
    branch = lambda a: jax.lax.cond(a[0, 0] > 0, lambda a: a @ a, lambda a: a @ a @ a, a)  # noqa: E731
    assert count(branch, zeros(4, 4)) == 2 * 2 * 4**3


def test_what_is_computed_twice_counts_twice():
    def loss(a, b):
        return jnp.sum(jnp.tanh(a @ b) ** 2)

    plain, again = (count(jax.value_and_grad(f), zeros(4, 4), zeros(4, 4)) for f in (loss, jax.checkpoint(loss)))
    assert (plain, again) == (2 * 2 * 4**3, 3 * 2 * 4**3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_and_each_of_its_gradients_cost_the_same(stride, groups):
    x, kernel = zeros(2, 8, 8, 4), zeros(3, 3, 4 // groups, 6)
    side = 8 // stride
    once = 2 * 2 * side * side * 6 * 9 * (4 // groups)

    def forward(x, kernel):
        return convolve(x, kernel, stride, "SAME", groups)

    assert count(forward, x, kernel) == once
    assert count(lambda *args: jax.vjp(forward, *args)[1](forward(*args)), x, kernel) == (1 + 2) * once


def test_a_convolution_without_padding_agrees_with_the_compiler():
    x, kernel = zeros(2, 9, 9, 4), zeros(3, 3, 4, 6)
    assert count(convolve, x, kernel) == jax.jit(convolve).lower(x, kernel).cost_analysis()["flops"]
