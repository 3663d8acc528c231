"""JAX's operators as ONNX's: one small function for each, found by the operator's name in OPERATORS.

A function takes the graph, the names of the inputs, and the equation of the jaxpr; it returns the result's name.
Convolutions, pooling and products of matrices are in layers.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from metapl.export.graph import Graph, element_type
from metapl.schema import ConfigError

Emit = Callable[[Graph, Sequence[str], JaxprEqn], str]


def sides(shape: Sequence[Any]) -> list[int | None]:
    """Turn a shape of a jaxpr into ours: None is the size of the batch; sizes computed from it raise ConfigError."""
    result = [int(side) if isinstance(side, int | np.integer) else None for side in shape]
    if any(side is None and not str(given).isidentifier() for side, given in zip(result, shape, strict=True)):
        raise ConfigError(f"a shape that is computed from the size of the batch ({list(shape)}) cannot be exported")
    return result


def given(equation: JaxprEqn, place: int = 0) -> Any:
    """Shape and type of an equation's input."""
    return equation.invars[place].aval


def result(equation: JaxprEqn) -> Any:
    """Shape and type of an equation's result."""
    return equation.outvars[0].aval


def refuse(equation: JaxprEqn, why: str) -> ConfigError:
    """Make the error that names an operator that ONNX cannot express."""
    return ConfigError(
        f"the operator {equation.primitive.name} {why}, which the ONNX export does not support; use --stablehlo"
    )


def simple(operator: str) -> Emit:
    """Make the function for an operator that ONNX has with the same meaning, broadcasting included."""
    return lambda graph, names, equation: graph.add(operator, names)


def rsqrt(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """1 / √x."""
    return graph.add("Reciprocal", [graph.add("Sqrt", names)])


def erfc(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """1 − erf(x), for which ONNX has no operator."""
    return graph.add("Sub", [graph.constant(np.ones((), result(equation).dtype)), graph.add("Erf", names)])


def square(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """x · x."""
    return graph.add("Mul", [names[0], names[0]])


def integer_pow(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """x to the power of a whole number."""
    exponent = np.asarray(equation.params["y"], result(equation).dtype)
    return graph.add("Pow", [names[0], graph.constant(exponent)])


def round_to_even(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Round halves to even, as ONNX does."""
    if int(equation.params["rounding_method"]) != 1:
        raise refuse(equation, "rounds halves away from zero")
    return graph.add("Round", names)


def not_equal(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Negate Equal: ONNX has no operator for ≠."""
    return graph.add("Not", [graph.add("Equal", names)])


def clamp(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """min(max(x, low), high)."""
    low, value, high = names
    return graph.add("Min", [graph.add("Max", [value, low]), high])


def select_n(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Take from the second case where the condition holds, else from the first."""
    condition, *cases = names
    if len(cases) != 2 or given(equation).dtype != np.bool_:
        raise refuse(equation, "selects from more than two")
    return graph.add("Where", [condition, cases[1], cases[0]])


def cast(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Convert numbers to another type."""
    if given(equation).dtype == result(equation).dtype:
        return names[0]
    return graph.add("Cast", names, to=element_type(result(equation).dtype))


def same(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Return the input: the operator only affects gradients or copies."""
    return names[0]


def reduction(operator: str) -> Emit:
    """Make the function that reduces over some axes."""

    def reduce(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
        return graph.add(operator, [names[0], graph.whole_numbers(equation.params["axes"])], keepdims=0)

    return reduce


def reshape(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Give another shape; also what adds or drops axes of size 1."""
    if equation.primitive.name == "reshape" and equation.params["dimensions"] is not None:
        raise refuse(equation, "reorders axes")
    return graph.reshape(names[0], sides(result(equation).shape))


def transpose(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Reorder the axes."""
    return graph.add("Transpose", names, perm=list(equation.params["permutation"]))


def broadcast_in_dim(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Reshape to the rank of the result, with axes of size 1, then repeat along the axes that are larger in it."""
    own, wanted = sides(given(equation).shape), sides(result(equation).shape)
    placed: list[int | None] = [1] * len(wanted)
    for side, axis in zip(own, equation.params["broadcast_dimensions"], strict=True):
        placed[axis] = side
    name = graph.reshape(names[0], placed) if placed != own else names[0]
    if placed == wanted:
        return name
    if None in wanted and None not in placed:
        parts = [graph.batch_size() if side is None else graph.whole_numbers([side]) for side in wanted]
        return graph.add("Expand", [name, graph.add("Concat", parts, axis=0)])
    # 1 means "keep the size", as the batch must.
    return graph.add("Expand", [name, graph.whole_numbers([1 if side is None else side for side in wanted])])


def slice_part(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Take a part of some axes, but never of the batch."""
    params, own = equation.params, sides(given(equation).shape)
    starts, limits = sides(params["start_indices"]), sides(params["limit_indices"])
    steps = params["strides"] or [1] * len(own)
    cut = [axis for axis, side in enumerate(own) if (starts[axis], limits[axis], steps[axis]) != (0, side, 1)]
    if any(own[axis] is None for axis in cut):
        raise refuse(equation, "takes a part of the batch")
    wanted = [[int(values[axis] or 0) for axis in cut] for values in (starts, limits)]
    places = [graph.whole_numbers(values) for values in (*wanted, cut, [int(steps[axis]) for axis in cut])]
    return graph.add("Slice", [names[0], *places])


def reverse(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Reverse the order along some axes, but never of the batch."""
    axes, own = list(equation.params["dimensions"]), sides(given(equation).shape)
    if any(own[axis] is None for axis in axes):
        raise refuse(equation, "reverses the batch")
    # From the last place to before the first one, which ONNX calls the smallest whole number.
    places = [[-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), axes, [-1] * len(axes)]
    return graph.add("Slice", [names[0], *map(graph.whole_numbers, places)])


def pad(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Pad with a constant."""
    low, high, interior = zip(*equation.params["padding_config"], strict=True)
    if any(interior) or min(*low, *high) < 0:
        raise refuse(equation, "crops, or pads between elements")
    return graph.add("Pad", [names[0], graph.whole_numbers([*low, *high]), names[1]])


def concatenate(graph: Graph, names: Sequence[str], equation: JaxprEqn) -> str:
    """Join along an axis."""
    return graph.add("Concat", names, axis=equation.params["dimension"])


OPERATORS: dict[str, Emit] = {
    "abs": simple("Abs"),
    "add": simple("Add"),
    "and": simple("And"),
    "broadcast_in_dim": broadcast_in_dim,
    "clamp": clamp,
    "concatenate": concatenate,
    "convert_element_type": cast,
    "copy": same,
    "copy_p": same,
    "div": simple("Div"),
    "eq": simple("Equal"),
    "erf": simple("Erf"),
    "erfc": erfc,
    "exp": simple("Exp"),
    "expand_dims": reshape,
    "floor": simple("Floor"),
    "ge": simple("GreaterOrEqual"),
    "gt": simple("Greater"),
    "integer_pow": integer_pow,
    "le": simple("LessOrEqual"),
    "log": simple("Log"),
    "logistic": simple("Sigmoid"),
    "lt": simple("Less"),
    "max": simple("Max"),
    "min": simple("Min"),
    "mul": simple("Mul"),
    "name": same,
    "ne": not_equal,
    "neg": simple("Neg"),
    "not": simple("Not"),
    "or": simple("Or"),
    "pad": pad,
    "reduce_max": reduction("ReduceMax"),
    "reduce_min": reduction("ReduceMin"),
    "reduce_sum": reduction("ReduceSum"),
    "reshape": reshape,
    "rev": reverse,
    "round": round_to_even,
    "rsqrt": rsqrt,
    "select_n": select_n,
    "slice": slice_part,
    "sqrt": simple("Sqrt"),
    "square": square,
    "squeeze": reshape,
    "stop_gradient": same,
    "sub": simple("Sub"),
    "tanh": simple("Tanh"),
    "transpose": transpose,
}
