"""oneDNN's convolutions for JAX programs on CPUs; `metapl` uses them if this package is installed."""

import ctypes
import functools
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARY = "onednn-cpu-gomp"  # the package that has oneDNN itself


def handler(name: str = "convolution") -> Any:
    """Return a handler of XLA's custom calls for `jax.ffi.pycapsule`: `convolution` or `sums`.

    Raise OSError, ImportError or AttributeError if there is none.
    """
    return getattr(_library(), f"metapl_onednn_{name}")


def has_own_kernels() -> bool:
    """Whether most convolutions are computed by this package itself: the processor has AVX-512."""
    return bool(_library().metapl_onednn_own_kernels())


@functools.cache
def _library() -> ctypes.CDLL:
    ctypes.CDLL(str(_onednn()), ctypes.RTLD_GLOBAL)  # ours is linked to it by name and finds it loaded
    (own,) = Path(__file__).parent.glob("_convolution*.so")
    return ctypes.CDLL(str(own))


def _onednn() -> Path:
    for file in metadata.files(LIBRARY) or ():
        if file.name == "libdnnl.so.3":
            return Path(str(file.locate())).resolve()
    raise ImportError(f"the package {LIBRARY} has no libdnnl.so.3")
