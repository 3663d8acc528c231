"""An ONNX graph that grows node by node; all results that depend on the input have the batch as first dimension."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

# 18 has the reductions' axes as inputs, as later ones do; old enough for runtimes of 2023.
OPSET, IR_VERSION = 18, 9
BATCH = "batch"
INPUT = "pictures"

Constant = NDArray[Any]
Shape = Sequence[int | None]  # None: the batch


class Graph:
    """Collects nodes and constants; equal constants are stored once."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node with one result, and return its name."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: Constant) -> str:
        """Store a constant, and return its name."""
        value = np.asarray(value)  # not ascontiguousarray, which would give a single number an axis
        known = (value.dtype.str, value.shape, value.tobytes())
        if known not in self._known:
            name = f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
            self._known[known] = name
        return self._known[known]

    def whole_numbers(self, values: Sequence[int]) -> str:
        """Store a list of whole numbers: a shape, or axes."""
        return self.constant(np.asarray(values, np.int64))

    def batch_size(self) -> str:
        """The number of examples in the input, as a list of one."""
        return self.add("Shape", [INPUT], start=0, end=1)

    def reshape(self, name: str, shape: Shape) -> str:
        """Give a result another shape; at most one side may be the batch."""
        return self.add("Reshape", [name, self.whole_numbers([-1 if side is None else side for side in shape])])

    def model(self, given: tuple[str, np.dtype[Any], Shape], made: tuple[str, np.dtype[Any], Shape]) -> onnx.ModelProto:
        """Make the model, with the names, types and shapes of its input and output."""
        graph = helper.make_graph(self.nodes, "metapl", [_value(*given)], [_value(*made)], self.constants)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="metapl")


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number for a type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _value(name: str, dtype: np.dtype[Any], shape: Shape) -> onnx.ValueInfoProto:
    sides = [BATCH if side is None else side for side in shape]
    return helper.make_tensor_value_info(name, TensorProto.DataType.ValueType(element_type(dtype)), sides)
