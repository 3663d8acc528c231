"""Count the multiplications and additions of a computation's matrix products and convolutions.

They are counted in the jaxpr, before a compiler rewrites it. XLA's own cost analysis leaves out a convolution's work on
padding (1.18 instead of 1.29 GFLOP for a WRN-28-2 training step, per image) and adds element-wise work. Published
figures do neither, and only matrix work can be compared with the peak of a matrix product.
What is computed twice (remat) counts twice.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import partial_eval


def count(function: Callable[..., Any], *args: Any) -> int:
    """FLOPs of one call; the arguments may be arrays or their shapes."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    # Without unused results, which no compiler computes: for instance a product of which only the gradient is needed.
    return _count(partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0])


def _count(jaxpr: core.Jaxpr) -> int:
    return sum(_count_equation(equation) for equation in jaxpr.eqns)


def _count_equation(equation: core.JaxprEqn) -> int:
    match equation.primitive.name:
        case "dot_general":
            return _dot(equation)
        case "conv_general_dilated":
            return _convolution(equation)
        case "onednn_convolution":
            return int(equation.params["geometry"].flops)
        case "cond":  # one branch runs: the costliest
            return max(_count(branch) for branch in _inner(equation))
        case "scan":
            return equation.params["length"] * sum(map(_count, _inner(equation)))
        case _:  # the body of a while loop counts once: how often it will run is unknown
            return sum(map(_count, _inner(equation)))


def _inner(equation: core.JaxprEqn) -> Iterator[core.Jaxpr]:
    """The jaxprs that an equation calls: of a jit, a remat, a custom gradient, …"""
    for value in jax.tree.leaves(equation.params, is_leaf=_is_jaxpr):
        if _is_jaxpr(value):
            yield value.jaxpr if isinstance(value, core.ClosedJaxpr) else value


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, (core.Jaxpr, core.ClosedJaxpr))


def _dot(equation: core.JaxprEqn) -> int:
    """2 · [batch, M, N] · K."""
    (contracted, _), _ = equation.params["dimension_numbers"]
    lhs = _shape(equation.invars[0])
    return 2 * math.prod(_shape(equation.outvars[0])) * math.prod(lhs[axis] for axis in contracted)


def _convolution(equation: core.JaxprEqn) -> int:
    """2 · [N, out channels] · in channels of a group · pairs of output position and kernel tap, along each axis.

    The gradients of a convolution are convolutions, too; each counts as much as the convolution itself.
    """
    params, dims = equation.params, equation.params["dimension_numbers"]
    kernel, out = _shape(equation.invars[1]), _shape(equation.outvars[0])
    pairs = [
        _position_tap_pairs(out[o], kernel[k], stride, pad, lhs_dilation, rhs_dilation)
        for o, k, stride, (pad, _), lhs_dilation, rhs_dilation in zip(
            dims.out_spec[2:],
            dims.rhs_spec[2:],
            params["window_strides"],
            params["padding"],
            params["lhs_dilation"],
            params["rhs_dilation"],
            strict=True,
        )
    ]
    images, channels, depth = out[dims.out_spec[0]], out[dims.out_spec[1]], kernel[dims.rhs_spec[1]]
    return 2 * images * channels * depth * math.prod(pairs)


def _shape(variable: Any) -> tuple[int, ...]:
    return variable.aval.shape


def _position_tap_pairs(out: int, kernel: int, stride: int, pad: int, lhs_dilation: int, rhs_dilation: int) -> int:
    """Pairs of (output position, kernel tap) along one axis that read a value, not a gap that dilation inserts.

    A tap that reads padding counts, as in every published figure.
    """
    places = (position * stride + tap * rhs_dilation - pad for position in range(out) for tap in range(kernel))
    return sum(place % lhs_dilation == 0 for place in places)
