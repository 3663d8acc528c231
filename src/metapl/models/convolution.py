"""How a convolution is computed on CPUs, chosen by its shapes when a program is traced.

| way       | when                                              | why                                                 |
|-----------|---------------------------------------------------|-----------------------------------------------------|
| extension | `metapl-onednn` is installed, float32, one device | docs/speed.md has the times                         |
| product   | the kernel is larger than the output picture      | XLA has no fast path: 512→512, 3×3 at 2×2, batch 16 |
|           |                                                   | takes 199 ms forward, 203 ms for the gradient of x; |
|           |                                                   | the product 4.3 and 4.4 ms of processor time        |
|           | 1×1 that widens or narrows three times or more    | batch 16, ms for y, dx, dw: 24→144 at 48×48 4.4,    |
|           |                                                   | 6.4, 16.1 and 2.0, 2.8, 12.4; 1248→208 at 6×6 2.2,  |
|           |                                                   | 2.6, 6.2 and 1.8, 1.6, 3.2                          |
| shifted   | one channel for each group, float32 or float64    | shifted_products.py has the times                   |
| XLA       | otherwise, and on every other device              |                                                     |

The product is y = P(x) · w: the row of P(x) for an output pixel has all pixels that its kernel reads. All its
derivatives are products, too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from metapl.models import onednn
from metapl.models.bilinear import Geometry, Shape
from metapl.models.onednn import NUMBERS
from metapl.models.shifted_products import depthwise
from metapl.system import runtime
from metapl.types import Array

WIDER = 3
MOST_TAPS = 9  # of kernels that the extension computes by itself, with AVX-512; the others it gives to oneDNN

# oneDNN lays out the weights anew in each call. It is worth it if each weight is used for enough pixels. ResNet-50 on
# 64×64 pictures, batch 16, processor ms of all three functions, XLA and oneDNN: 3×3 with 64 channels at 16×16 11.9 and
# 9.2; 256 channels at 4×4 (as many pixels as channels) 10.8 and 8.7; 1×1, 1024→2048, to 2×2 (64 pixels) 12.3 and 23.9.
FEWEST_PIXELS_FOR_A_CHANNEL = 1


def convolve(
    x: Array,
    w: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    *,
    feature_group_count: int = 1,
    dimension_numbers: Any = None,
    **rest: Any,
) -> Array:
    """[N, H, W, I] with w [kh, kw, I / groups, O] → [N, H', W', O]: `lax.conv_general_dilated`, as flax calls it."""

    def by_xla(x: Array, w: Array) -> Array:
        numbers = NUMBERS if dimension_numbers is None else dimension_numbers
        return lax.conv_general_dilated(
            x, w, window_strides, padding, feature_group_count=feature_group_count, dimension_numbers=numbers, **rest
        )

    dilated = any(set(rest.get(name) or (1,)) != {1} for name in ("lhs_dilation", "rhs_dilation"))
    if x.ndim != 4 or dilated:
        return by_xla(x, w)
    geometry = geometry_of(x, w, window_strides, padding, feature_group_count)
    way = quick_way(geometry, x.dtype)
    return by_xla(x, w) if way is None else runtime.on_cpus(way, by_xla, x, w)


def geometry_of(x: Array, w: Array, strides: Sequence[int], padding: Any, groups: int = 1) -> Geometry:
    """Return the shapes of a convolution, with the padding as numbers."""
    rows, columns = strides
    pads = lax.padtype_to_pads(x.shape[1:3], w.shape[:2], strides, padding) if isinstance(padding, str) else padding
    (top, bottom), (left, right) = pads
    shapes = cast(tuple[Shape, Shape], (x.shape, w.shape))
    return Geometry(*shapes, (rows, columns), ((top, bottom), (left, right)), groups)


def quick_way(geometry: Geometry, dtype: Any) -> Callable[[Array, Array], Array] | None:
    """Return the function that CPUs compute this convolution with; None: XLA's."""
    if jax.sharding.get_abstract_mesh().shape:  # several devices: only XLA's own operations can be shared among them
        return None
    _, rows, columns, _ = geometry.y
    small = geometry.groups == 1 and (rows < geometry.w[0] or columns < geometry.w[1])
    if dtype == jnp.float32 and not onednn.is_portable() and _suits_extension(geometry, small) and onednn.available():
        return lambda x, w: onednn.convolution(x, w, geometry)
    if dtype not in (jnp.float32, jnp.float64):
        return None
    if small or _widens_or_narrows(geometry):
        return lambda x, w: product(x, w, geometry)
    if geometry.w[2] == 1 and geometry.groups == geometry.w[3] and _has_known_sizes(geometry):
        return lambda x, w: depthwise(x, w, geometry)
    return None


def _widens_or_narrows(geometry: Geometry) -> bool:
    """Whether it is one matrix product whose results are several times as large, or small, as its arguments.

    The shortcuts of WRN-10-1 and WRN-28-2 are not: their published runs keep their bits.
    """
    fewer, more = sorted(geometry.w[2:])
    return geometry.w[:2] == (1, 1) and geometry.strides == (1, 1) and geometry.groups == 1 and more >= WIDER * fewer


def _has_known_sizes(geometry: Geometry) -> bool:
    """An exported program takes batches of any size."""
    return all(isinstance(size, int) for size in geometry.y)


def _suits_extension(geometry: Geometry, small: bool) -> bool:
    if not _has_known_sizes(geometry):
        return False
    if _suits_own_kernels(geometry) and onednn.has_own_kernels():
        return True
    pixels = math.prod(geometry.y[:3])
    return not small and (geometry.groups > 1 or pixels >= FEWEST_PIXELS_FOR_A_CHANNEL * geometry.w[2])


def _suits_own_kernels(geometry: Geometry) -> bool:
    """As in convolution.cc."""
    height, width, inputs, outputs = geometry.w
    return geometry.groups == 1 and inputs % 16 == 0 and outputs % 16 == 0 and height * width <= MOST_TAPS


def product(x: Array, w: Array, geometry: Geometry) -> Array:
    """Compute it as one matrix product over all places of the kernel."""
    (down, right), (_, rows, columns, features) = geometry.strides, geometry.y
    padded = jnp.pad(x, ((0, 0), *geometry.padding, (0, 0)))
    places = [
        padded[:, a : a + (rows - 1) * down + 1 : down, b : b + (columns - 1) * right + 1 : right]
        for a in range(geometry.w[0])
        for b in range(geometry.w[1])
    ]
    patches = jnp.concatenate(places, axis=-1)  # [N, H', W', kh · kw · I]
    return jnp.dot(patches, w.reshape(-1, features))
