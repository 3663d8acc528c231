"""oneDNN's convolutions for JAX programs on CPUs; `metapl` uses them if this package is installed."""

import ctypes
import functools
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARY = "onednn-cpu-gomp"  # the package that has oneDNN itself


@functools.cache
def handler() -> Any:
    """Return the handler of the custom call for `jax.ffi.pycapsule`; raise OSError or ImportError if there is none."""
    ctypes.CDLL(str(_onednn()), ctypes.RTLD_GLOBAL)  # ours is linked to it by name and finds it loaded
    (own,) = Path(__file__).parent.glob("_convolution*.so")
    return ctypes.CDLL(str(own)).metapl_onednn_convolution


def _onednn() -> Path:
    for file in metadata.files(LIBRARY) or ():
        if file.name == "libdnnl.so.3":
            return Path(str(file.locate())).resolve()
    raise ImportError(f"the package {LIBRARY} has no libdnnl.so.3")
