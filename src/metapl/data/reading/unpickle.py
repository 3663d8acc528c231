"""Pickles of NumPy arrays and plain containers, read without running anything that they name.

CIFAR's official batches are pickles, and a pickle is a program: it names functions and calls them. Here the few names
that such a batch needs are answered with stand-ins of our own, and every other name is refused. Not even NumPy's
rebuilding functions are handed out: their states are trusted by C code that was not written for hostile ones.
"""

import math
import pickle
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError


class _StandIn:
    """Base: without `__setstate__`, a pickle could set attributes on the class and so change later reads."""

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a state where none belongs")


class _DType(_StandIn):
    """Stands in for numpy.dtype: bytes, and nothing else."""

    def __init__(self, *args: Any) -> None:
        if args[:1] not in (("u1",), (b"u1",)):
            raise pickle.UnpicklingError("an array that is not of unsigned bytes")

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like: bytes have none."""


class _Array(_StandIn):
    """Stands in for numpy.ndarray while its state is awaited."""

    value: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, fortran, data = state
        whole = type(shape) is tuple and all(type(size) is int for size in shape)
        if not whole or fortran or type(dtype) is not _DType or type(data) is not bytes:
            raise pickle.UnpicklingError("an array of another make")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError("an array whose size and bytes do not fit")
        self.value = np.frombuffer(data, np.uint8).reshape(shape)


class _Reconstruct(_StandIn):
    """Stands in for the function that makes an array whose state follows."""

    def __new__(cls, *_: Any) -> _Array:  # type: ignore[misc]
        return _Array()


class _Encode(_StandIn):
    """Stands in for the function by which Python 3 writes bytes into a pickle that Python 2 can read."""

    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
        return str.encode(text, "latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no data file needs") from None


def load_dict(file: BinaryIO, name: str) -> dict[str, Any]:
    """Read a pickled dict with text keys; uint8 arrays are arrays, Python 2's texts are bytes. `name` is for errors."""
    try:
        content = _Unpickler(file, encoding="bytes").load()
    except Exception as error:  # a broken pickle fails in any way there is: EOF, index, memory, attribute, …
        raise DataError(f"{name} cannot be read as a data batch: {error or type(error).__name__}") from None
    if type(content) is not dict or any(type(key) not in (str, bytes) for key in content):
        raise DataError(f"{name} is not a data batch: it holds no named values")
    return {_text(key): value.value if type(value) is _Array else value for key, value in content.items()}


def _text(key: str | bytes) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else key
