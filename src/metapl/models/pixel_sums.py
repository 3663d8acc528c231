"""Batch norm in training mode with few passes over the pictures: on CPUs, if `metapl-onednn` is installed.

Two functions of a picture a [..., C] and a centre m [C]. Each is linear in its last argument, and they are each other's
transposes:

    sums(a, m, b)    [..., C] → [2, C]     Σ (a − m) b and Σ b, over all pixels of the batch
    spread(a, m, c)  [2, C] → [..., C]     (a − m) c₀ + c₁

`sums` is one call of the extension, which reads each picture once; `spread` is a loop of XLA's, which joins it with
what stands around it. With r = 1 / √(var + ε), the derivative of y = (x − mean) · scale · r + bias along
(ẋ, scale′, bias′) is

    ẏ = scale · r · (ẋ − mean′) + (x − mean) (scale · r)′ + bias′
    (scale · r)′ = scale′ r − scale r³ var′ / 2        mean′, var′ / 2 = Σ ẋ / n, Σ (x − mean) ẋ / n

so a forward and a backward pass need one `sums` each. XLA's own derivative of the same formula reads and writes the
pictures of a norm and its ReLU 18 times; this one, 11 times.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from metapl.models import onednn
from metapl.models.remat import kept
from metapl.types import Array


@functools.cache
def available() -> bool:
    """Whether the extension is installed; it then computes `sums` on CPUs."""
    if not onednn.register("sums"):
        return False
    mlir.register_lowering(_sums, jax.ffi.ffi_lowering("metapl_onednn_sums"), platform="cpu")
    return True


def suits(x: Array) -> bool:
    """In a traced function: whether batch norm of x is to be computed here."""
    one_device = not jax.sharding.get_abstract_mesh().shape
    return one_device and x.dtype == jnp.float32 and not onednn.is_portable() and x.size > 0 and available()


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def batch_norm(x: Array, scale: Array, bias: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """[..., C] → the same with the mean and variance of the batch taken away, and these two."""
    squares, total = sums(x, jnp.zeros_like(bias), x) / _pixels(x)
    mean, var = total, jnp.maximum(squares - lax.square(total), 0.0)
    return (x - mean) * (scale * lax.rsqrt(var + epsilon)) + bias, mean, var


@batch_norm.defjvp
def _derivative(epsilon: float, primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, scale, bias = primals
    dx, dscale, dbias = tangents
    y, mean, var = batch_norm(x, scale, bias, epsilon)
    mean, var = kept(mean), kept(var)
    root = lax.rsqrt(var + epsilon)
    half_dvar, dmean = sums(x, mean, dx) / _pixels(x)
    half_dvar = jnp.where(var > 0, half_dvar, 0.0)
    slope = scale * root
    dslope = dscale * root - slope * lax.square(root) * half_dvar
    dy = slope * dx + spread(x, mean, jnp.stack([dslope, dbias - slope * dmean]))
    return (y, mean, var), (dy, dmean, 2 * half_dvar)


def sums(a: Array, m: Array, b: Array) -> Array:
    """[Σ (a − m) b, Σ b] of each channel."""
    return _sums.bind(a, m, b)


def spread(a: Array, m: Array, c: Array) -> Array:
    """(a − m) c₀ + c₁ for each pixel."""
    return _spread.bind(a, m, c)


def _pixels(x: Array) -> int:
    return x.size // x.shape[-1]


def sums_by_xla(a: Array, m: Array, b: Array) -> Array:
    """Compute `sums` as XLA does."""
    pixels = tuple(range(a.ndim - 1))
    return jnp.stack([jnp.sum((a - m) * b, pixels), jnp.sum(b, pixels)])


def _spread_by_xla(a: Array, m: Array, c: Array) -> Array:
    return (a - m) * c[0] + c[1]


_sums, _spread = Primitive("pixel_sums"), Primitive("pixel_spread")


def _sums_tangent(primals: Any, tangents: Any) -> tuple[Array, Any]:
    (a, m, b), (da, dm, db) = primals, tangents
    out = sums(a, m, b)
    parts = []
    if not isinstance(da, ad.Zero):
        parts.append(sums(b, jnp.zeros_like(m), da).at[1].set(0.0))
    if not isinstance(dm, ad.Zero):
        parts.append(jnp.stack([-dm * out[1], jnp.zeros_like(m)]))
    if not isinstance(db, ad.Zero):
        parts.append(sums(a, m, db))
    return out, functools.reduce(ad.add_jaxvals, parts)


def _spread_tangent(primals: Any, tangents: Any) -> tuple[Array, Any]:
    (a, m, c), (da, dm, dc) = primals, tangents
    parts = []
    if not isinstance(da, ad.Zero):
        parts.append(da * c[0])
    if not isinstance(dm, ad.Zero):
        parts.append(jnp.broadcast_to(-dm * c[0], a.shape))
    if not isinstance(dc, ad.Zero):
        parts.append(spread(a, m, dc))
    return spread(a, m, c), functools.reduce(ad.add_jaxvals, parts)


def _batch(function: Any, arrays: Any, axes: Any) -> tuple[Array, int]:
    """Under vmap, XLA computes it."""
    return jax.vmap(function, axes)(*arrays), 0


_sums.def_abstract_eval(lambda a, m, b: jax.core.ShapedArray((2, a.shape[-1]), a.dtype))
_spread.def_abstract_eval(lambda a, m, c: jax.core.ShapedArray(a.shape, a.dtype))
for _primitive, _by_xla, _tangent, _transpose in (
    (_sums, sums_by_xla, _sums_tangent, lambda ct, a, m, b: (None, None, spread(a, m, ct))),
    (_spread, _spread_by_xla, _spread_tangent, lambda ct, a, m, c: (None, None, sums(a, m, ct))),
):
    _primitive.def_impl(functools.partial(lambda bind, *arrays: jax.jit(bind)(*arrays), _primitive.bind))
    ad.primitive_jvps[_primitive] = _tangent
    ad.primitive_transposes[_primitive] = _transpose
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _by_xla)
    mlir.register_lowering(_primitive, mlir.lower_fun(_by_xla, multiple_results=False))
