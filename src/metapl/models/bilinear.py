"""Convolutions as primitives: three functions, each linear in both of its arguments, and each other's transposes.

    forward(x, w) = y        input(dy, w) = dx        weights(x, dy) = dw

They are one primitive with the parameter `kind`, so that JAX derives gradients, forward-mode products and higher
derivatives by itself, and each of the three can be computed in its own way.
"""

import functools
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from metapl.types import Array

Kind = Literal["forward", "input", "weights"]
Shape = tuple[int, int, int, int]


class Geometry(NamedTuple):
    """The shapes of a convolution."""

    x: Shape  # [N, H, W, I]
    w: Shape  # [kh, kw, I / groups, O]
    strides: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int = 1

    @property
    def y(self) -> Shape:
        """[N, H', W', O]."""
        rows, columns = (
            (side + sum(pads) - kernel) // stride + 1
            for side, pads, kernel, stride in zip(self.x[1:3], self.padding, self.w[:2], self.strides, strict=True)
        )
        return self.x[0], rows, columns, self.w[3]

    @property
    def flops(self) -> int:
        """Multiplications and additions of each of the three functions; taps that read padding count."""
        return 2 * int(np.prod(self.y)) * int(np.prod(self.w[:3]))

    def result(self, kind: Kind) -> Shape:
        """The shape that a function returns."""
        return {"forward": self.y, "input": self.x, "weights": self.w}[kind]


class Compute(Protocol):
    """Computes any of the three functions with JAX's own operations."""

    def __call__(self, a: Array, b: Array, *, kind: Kind, geometry: Geometry) -> Array: ...


def primitive(name: str, compute: Compute, members_in_turn: int = 0) -> Primitive:
    """Make the primitive. Under `vmap`, up to so many members with their own weights are computed one after another."""
    made = Primitive(name)
    made.def_abstract_eval(lambda a, b, *, kind, geometry: jax.core.ShapedArray(geometry.result(kind), a.dtype))
    made.def_impl(lambda a, b, **parameters: jax.jit(functools.partial(made.bind, **parameters))(a, b))
    ad.defbilinear(made, functools.partial(_for_first, made), functools.partial(_for_second, made))
    batching.primitive_batchers[made] = functools.partial(_batch, made, compute, members_in_turn)
    mlir.register_lowering(made, mlir.lower_fun(compute, multiple_results=False))
    return made


# Transposes: the cotangent `ct` has the shape of the result; the linear argument is undefined.


def _for_first(made: Primitive, ct: Array, _: Any, b: Array, *, kind: Kind, geometry: Geometry) -> Any:
    match kind:
        case "forward":
            return made.bind(ct, b, kind="input", geometry=geometry)
        case "input":
            return made.bind(ct, b, kind="forward", geometry=geometry)
        case "weights":
            return made.bind(b, ct, kind="input", geometry=geometry)


def _for_second(made: Primitive, ct: Array, a: Array, _: Any, *, kind: Kind, geometry: Geometry) -> Any:
    match kind:
        case "forward":
            return made.bind(a, ct, kind="weights", geometry=geometry)
        case "input":
            return made.bind(ct, a, kind="weights", geometry=geometry)
        case "weights":
            return made.bind(a, ct, kind="forward", geometry=geometry)


def _batch(
    made: Primitive, compute: Compute, members_in_turn: int, arrays: Any, axes: Any, *, kind: Kind, geometry: Geometry
) -> tuple[Array, int]:
    """Members that share the weights are one larger batch."""
    a, b = (array if axis is None else jnp.moveaxis(array, axis, 0) for array, axis in zip(arrays, axes, strict=True))
    members = len(a) if axes[0] is not None else len(b)
    if kind != "weights" and axes[1] is None:
        larger = geometry._replace(x=(members * geometry.x[0], *geometry.x[1:]))
        result = made.bind(a.reshape(-1, *a.shape[2:]), b, kind=kind, geometry=larger)
        return result.reshape(members, *geometry.result(kind)), 0
    if members > members_in_turn:
        one = functools.partial(compute, kind=kind, geometry=geometry)
        return jax.vmap(one, [None if axis is None else 0 for axis in axes])(a, b), 0
    in_turn = [
        made.bind(a if axes[0] is None else a[i], b if axes[1] is None else b[i], kind=kind, geometry=geometry)
        for i in range(members)
    ]
    return jnp.stack(in_turn), 0
