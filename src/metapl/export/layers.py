"""Convolutions, pooling and matrix products in ONNX, where a picture's channels come before its sides."""

from collections.abc import Sequence

import numpy as np
from jax.extend.core import JaxprEqn

from metapl.export.graph import Graph
from metapl.export.operators import Emit, given, refuse

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def convolution(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """A convolution of any layout, grouped ones included."""
    params = equation.params
    if params["batch_group_count"] != 1 or set(params["lhs_dilation"]) != {1}:
        raise refuse(equation, "groups the batch, or is transposed")
    pictures, kernels, results = (list(spec) for spec in params["dimension_numbers"])
    low, high = zip(*params["padding"], strict=True)
    if min(*low, *high) < 0:
        raise refuse(equation, "crops instead of padding")
    inputs = _permuted(graph, names[0], pictures)
    kernel = _permuted(graph, names[1], kernels)
    made = graph.add(
        "Conv",
        [inputs, kernel],
        strides=list(params["window_strides"]),
        pads=[*low, *high],
        dilations=list(params["rhs_dilation"]),
        group=params["feature_group_count"],
    )
    return _permuted(graph, made, np.argsort(results).tolist())


def max_pool(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """The largest value in each window, of pictures with channels last."""
    params = equation.params
    window, strides = params["window_dimensions"], params["window_strides"]
    padding = params["padding"]
    flat = len(window) == 4 and (window[0], window[3]) == (strides[0], strides[3]) == (1, 1)
    if not flat or {padding[0], padding[3]} != {(0, 0)}:
        raise refuse(equation, "pools other axes than a picture's sides")
    if {*params["base_dilation"], *params["window_dilation"]} != {1}:
        raise refuse(equation, "has a dilated window")
    (top, bottom), (left, right) = padding[1:3]
    inputs = _permuted(graph, names[0], [0, 3, 1, 2])
    made = graph.add(
        "MaxPool",
        [inputs],
        kernel_shape=list(window[1:3]),
        strides=list(strides[1:3]),
        pads=[top, left, bottom, right],
    )
    return _permuted(graph, made, [0, 2, 3, 1])


def dot_general(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """A matrix product, or a product of arrays along any axes."""
    (left_summed, right_summed), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left_rank, right_rank = (len(given(equation, place).shape) for place in (0, 1))
    plain = (left_rank, right_rank, tuple(left_summed), tuple(right_summed)) == (2, 2, (1,), (0,))
    if plain and not left_batch:
        return graph.add("MatMul", names)
    letters = iter(LETTERS)
    left = [next(letters) for _ in range(left_rank)]
    right = [next(letters) for _ in range(right_rank)]
    for own, other in ((left_batch, right_batch), (left_summed, right_summed)):
        for i, j in zip(own, other, strict=True):
            right[j] = left[i]
    alone = [
        letter
        for letters_of, used in ((left, {*left_batch, *left_summed}), (right, {*right_batch, *right_summed}))
        for axis, letter in enumerate(letters_of)
        if axis not in used
    ]
    made = [left[i] for i in left_batch] + alone
    return graph.add("Einsum", names, equation=f"{''.join(left)},{''.join(right)}->{''.join(made)}")


def _permuted(graph: Graph, name: str, axes: list[int]) -> str:
    return name if axes == sorted(axes) else graph.add("Transpose", [name], perm=axes)


LAYERS: dict[str, Emit] = {
    "conv_general_dilated": convolution,
    "dot_general": dot_general,
    "reduce_window_max": max_pool,
}
