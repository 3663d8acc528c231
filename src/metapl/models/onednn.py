"""Convolutions by oneDNN or, if they are 3×3, by Winograd's algorithm: on CPUs, if `metapl-onednn` is installed.

They are a primitive with all derivatives (bilinear.py). On other devices, and for members of a large `vmap`, XLA
computes them.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.interpreters import mlir

import metapl
from metapl.models import bilinear
from metapl.models.bilinear import Geometry, Kind
from metapl.system import runtime
from metapl.types import Array

KINDS: tuple[Kind, ...] = ("forward", "input", "weights")  # numbered as in convolution.cc
TARGET = "metapl_onednn_convolution"
MOST_MEMBERS = 8  # of a vmap that are computed one after another; more of them would make long programs
NUMBERS = ("NHWC", "HWIO", "NHWC")

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
    return _convolution.bind(x, w, kind="forward", geometry=geometry)


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


def numbers(kind: Kind, geometry: Geometry) -> Any:
    """What convolution.cc reads, in its order."""
    batch, height, width, inputs = geometry.x
    pads = (*geometry.padding[0], *geometry.padding[1])
    sizes = (KINDS.index(kind), batch, height, width, inputs, geometry.w[3], *geometry.y[1:3], *geometry.w[:2])
    return np.array((*sizes, *geometry.strides, *pads, geometry.groups), np.int64)


def _lower(context: Any, a: Any, b: Any, *, kind: Kind, geometry: Geometry) -> Any:
    return jax.ffi.ffi_lowering(TARGET)(context, a, b, geometry=numbers(kind, geometry))


_convolution = bilinear.primitive("onednn_convolution", by_xla, MOST_MEMBERS)
mlir.register_lowering(_convolution, _lower, platform="cpu")
