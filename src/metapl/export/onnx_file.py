"""Turn a JAX function into an ONNX model, one equation of its jaxpr after another.

Results that do not depend on the input are computed during the export, with JAX, and become constants: folded batch
norms, the weights of a resize. If a network has a special path for CPUs, the usual path is written, which every runtime
supports. An operator that is not in the tables raises an error with its name.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from metapl.export.graph import INPUT, Graph
from metapl.export.layers import LAYERS
from metapl.export.operators import OPERATORS, Emit, sides
from metapl.schema import ConfigError
from metapl.types import Array

TABLE: Mapping[str, Emit] = OPERATORS | LAYERS
OUTPUT = "probabilities"
# Operators that only call another program, which is in the parameter of this name.
NESTED = ("jaxpr", "call_jaxpr", "fun_jaxpr")

Known = str | np.ndarray[Any, Any]  # the name of a result in the graph, or a constant


def to_onnx(function: Callable[[Array], Array], example: jax.ShapeDtypeStruct) -> onnx.ModelProto:
    """Make the model of a function of a batch; the first side of `example` is symbolic, so that any size fits."""
    program = jax.make_jaxpr(function)(example)
    graph = Graph()
    constants = [np.asarray(value) for value in program.consts]
    (made,) = _write(graph, program.jaxpr, constants, [INPUT])
    if not isinstance(made, str):
        raise ConfigError("the exported function does not depend on its input")
    graph.nodes.append(onnx.helper.make_node("Identity", [made], [OUTPUT], name=OUTPUT))
    (aval,) = program.out_avals
    given = INPUT, np.dtype(example.dtype), sides(example.shape)
    model = graph.model(given, (OUTPUT, np.dtype(aval.dtype), sides(aval.shape)))
    onnx.checker.check_model(model, full_check=True)
    return model


def _write(graph: Graph, program: Jaxpr, constants: Sequence[Known], given: Sequence[Known]) -> list[Known]:
    known: dict[Any, Known] = dict(zip(program.constvars, constants, strict=True))
    known |= zip(program.invars, given, strict=True)

    def value_of(variable: Any) -> Known:
        return np.asarray(variable.val) if isinstance(variable, Literal) else known[variable]

    for equation in program.eqns:
        made = _equation(graph, equation, [value_of(variable) for variable in equation.invars])
        known |= zip(equation.outvars, made, strict=True)
    return [value_of(variable) for variable in program.outvars]


def _equation(graph: Graph, equation: JaxprEqn, given: Sequence[Known]) -> list[Known]:
    name, params = equation.primitive.name, equation.params
    if name == "platform_index":
        # The usual path is last, for all platforms that are not named.
        return [np.asarray(len(params["platforms"]) - 1, np.int32)]
    if name == "cond" and not isinstance(given[0], str):
        return _nested(graph, params["branches"][int(given[0])], given[1:])
    for key in NESTED:
        if key in params and name != "scan":
            return _nested(graph, params[key], given)
    if _is_constant(equation, given):
        return _computed(equation, given)
    if name not in TABLE:
        raise ConfigError(
            f"the network uses the operator {name}, which the ONNX export does not support; use --stablehlo"
        )
    names = [value if isinstance(value, str) else graph.constant(value) for value in given]
    return [TABLE[name](graph, names, equation)]


def _nested(graph: Graph, program: ClosedJaxpr | Jaxpr, given: Sequence[Known]) -> list[Known]:
    if isinstance(program, ClosedJaxpr):
        return _write(graph, program.jaxpr, [np.asarray(value) for value in program.consts], given)
    return _write(graph, program, [], given)


def _is_constant(equation: JaxprEqn, given: Sequence[Known]) -> bool:
    if any(isinstance(value, str) for value in given):
        return False
    shapes: list[Any] = [variable.aval for variable in equation.outvars]
    return all(isinstance(side, int) for aval in shapes for side in aval.shape)


def _computed(equation: JaxprEqn, given: Sequence[Known]) -> list[Known]:
    values = equation.primitive.bind(*map(jax.numpy.asarray, given), **equation.params)
    return [np.asarray(value) for value in (values if equation.primitive.multiple_results else [values])]
