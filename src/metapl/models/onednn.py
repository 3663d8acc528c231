"""Convolutions by oneDNN or, if they are 3×3, by Winograd's algorithm: on CPUs, if `metapl-onednn` is installed.

Three functions, each linear in both of its arguments, and each other's transposes:

    forward(x, w) = y        input(dy, w) = dx        weights(x, dy) = dw

They are one primitive with the parameter `kind`, so that JAX derives gradients, forward-mode products and higher
derivatives by itself. On other devices, and for members of a large `vmap`, it is XLA's convolution.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import metapl
from metapl.system import runtime
from metapl.types import Array

Kind = Literal["forward", "input", "weights"]
KINDS: tuple[Kind, ...] = ("forward", "input", "weights")  # numbered as in convolution.cc
TARGET = "metapl_onednn_convolution"
MOST_MEMBERS = 8  # of a vmap that are computed one after another; more of them would make long programs
NUMBERS = ("NHWC", "HWIO", "NHWC")

Shape = tuple[int, int, int, int]

_portable: ContextVar[bool] = ContextVar("portable", default=False)


@contextmanager
def portable() -> Iterator[None]:
    """Trace programs that other machines can run, too: without this package."""
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def is_portable() -> bool:
    """In a traced function: whether other machines are to run the program, too."""
    return _portable.get()


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

    def numbers(self, kind: Kind) -> Any:
        """What convolution.cc reads, in its order."""
        batch, height, width, inputs = self.x
        pads = (*self.padding[0], *self.padding[1])
        sizes = (KINDS.index(kind), batch, height, width, inputs, self.w[3], *self.y[1:3], *self.w[:2])
        return np.array((*sizes, *self.strides, *pads, self.groups), np.int64)


@functools.cache
def register(name: str) -> bool:
    """Make a function of the package known to XLA as `metapl_onednn_NAME`; False if it is not there."""
    with suppress(ImportError, OSError, ValueError, AttributeError, TypeError):  # version 0.2 had one function
        import metapl_onednn  # type: ignore[import-not-found]

        handler = jax.ffi.pycapsule(metapl_onednn.handler(name))
        jax.ffi.register_ffi_target(f"metapl_onednn_{name}", handler, platform="cpu")
        return True
    return False


def available() -> bool:
    """Whether the package is installed and can be loaded; its convolutions are then known to XLA."""
    return register("convolution")


@functools.cache
def has_own_kernels() -> bool:
    """Whether the package computes convolutions of multiples of 16 channels by itself, for any size of picture."""
    if not available():
        return False
    import metapl_onednn

    return bool(metapl_onednn.has_own_kernels())


def hint() -> str:
    """Return the sentence that tells how to make convolutions on this machine faster; "" if nothing is to be done."""
    if available() or not runtime.is_cpu() or jax.device_count() > 1 or not runtime.has_avx512():
        return ""
    folder = Path(metapl.__file__).resolve().parents[2] / "extensions/onednn"  # if metapl runs from a clone
    where = str(folder) if folder.is_dir() else "./extensions/onednn (in a clone of metapl)"
    if find_spec("metapl_onednn"):
        return f"metapl-onednn is installed, but is too old or cannot be loaded; install it again: pip install {where}"
    return f"an extension makes convolutions on this processor 1.5 to 3 times as fast: pip install {where}"


def convolution(x: Array, w: Array, geometry: Geometry) -> Array:
    """Return y; all arrays are float32."""
    return _call("forward", x, w, geometry)


def by_xla(a: Array, b: Array, *, kind: Kind, geometry: Geometry) -> Array:
    """Compute any of the three functions as XLA does."""

    def forward(x: Array, w: Array) -> Array:
        strides, padding, groups = geometry.strides, geometry.padding, geometry.groups
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=NUMBERS, feature_group_count=groups)

    if kind == "forward":
        return forward(a, b)
    if kind == "input":
        return jax.linear_transpose(lambda x: forward(x, b), jax.ShapeDtypeStruct(geometry.x, a.dtype))(a)[0]
    return jax.linear_transpose(lambda w: forward(a, w), jax.ShapeDtypeStruct(geometry.w, a.dtype))(b)[0]


_convolution = Primitive("onednn_convolution")


def _call(kind: Kind, a: Array, b: Array, geometry: Geometry) -> Array:
    return _convolution.bind(a, b, kind=kind, geometry=geometry)


# Transposes: the cotangent `ct` has the shape of the result; the linear argument is undefined.


def _for_first(ct: Array, _: Any, b: Array, *, kind: Kind, geometry: Geometry) -> Array:
    match kind:
        case "forward":
            return _call("input", ct, b, geometry)
        case "input":
            return _call("forward", ct, b, geometry)
        case "weights":
            return _call("input", b, ct, geometry)


def _for_second(ct: Array, a: Array, _: Any, *, kind: Kind, geometry: Geometry) -> Array:
    match kind:
        case "forward":
            return _call("weights", a, ct, geometry)
        case "input":
            return _call("weights", ct, a, geometry)
        case "weights":
            return _call("forward", a, ct, geometry)


def _batch(arrays: Any, axes: Any, *, kind: Kind, geometry: Geometry) -> tuple[Array, int]:
    """Under vmap: members that share the weights are one larger batch; others are computed one after another."""
    a, b = (array if axis is None else jnp.moveaxis(array, axis, 0) for array, axis in zip(arrays, axes, strict=True))
    members = len(a) if axes[0] is not None else len(b)
    if kind != "weights" and axes[1] is None:
        larger = geometry._replace(x=(members * geometry.x[0], *geometry.x[1:]))
        result = _call(kind, a.reshape(-1, *a.shape[2:]), b, larger)
        return result.reshape(members, *geometry.result(kind)), 0
    if members > MOST_MEMBERS:
        one = functools.partial(by_xla, kind=kind, geometry=geometry)
        return jax.vmap(one, [None if axis is None else 0 for axis in axes])(a, b), 0
    one_by_one = [
        _call(kind, a if axes[0] is None else a[i], b if axes[1] is None else b[i], geometry) for i in range(members)
    ]
    return jnp.stack(one_by_one), 0


def _lower(context: Any, a: Any, b: Any, *, kind: Kind, geometry: Geometry) -> Any:
    return jax.ffi.ffi_lowering(TARGET)(context, a, b, geometry=geometry.numbers(kind))


_convolution.def_abstract_eval(lambda a, b, *, kind, geometry: jax.core.ShapedArray(geometry.result(kind), a.dtype))
_convolution.def_impl(lambda a, b, **parameters: jax.jit(functools.partial(_convolution.bind, **parameters))(a, b))
ad.defbilinear(_convolution, _for_first, _for_second)
batching.primitive_batchers[_convolution] = _batch
mlir.register_lowering(_convolution, mlir.lower_fun(by_xla, multiple_results=False))
mlir.register_lowering(_convolution, _lower, platform="cpu")
