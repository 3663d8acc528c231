"""Read pickles of NumPy arrays and plain containers without running any code that they name.

CIFAR's official batches are pickles, and a pickle is a program: it names functions and calls them. Here the few names
that such a batch needs are replaced by stand-ins of our own, and every other name is refused. Not even NumPy's own
functions that rebuild arrays are called: their C code was not written for hostile input.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError


class StandIn:
    """Base of what pickles get instead of the things that they name.

    Without its `__setstate__`, a pickle could set attributes of the class and so change later reads.
    """

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("an object has a state that it must not have")


class _DType(StandIn):
    """Stands in for numpy.dtype; accepts only unsigned bytes."""

    def __init__(self, *args: Any) -> None:
        if args[:1] not in (("u1",), (b"u1",)):
            raise pickle.UnpicklingError("an array is not of unsigned bytes")

    def __setstate__(self, state: Any) -> None:
        """Ignore the byte order and the like: bytes have none."""


class _Array(StandIn):
    """Stands in for numpy.ndarray until its state is read."""

    value: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, fortran, data = state
        whole = type(shape) is tuple and all(type(size) is int for size in shape)
        if not whole or fortran or type(dtype) is not _DType or type(data) is not bytes:
            raise pickle.UnpicklingError("an array has an unknown layout")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError("an array's shape and bytes do not match")
        self.value = np.frombuffer(data, np.uint8).reshape(shape)


class _Reconstruct(StandIn):
    """Stands in for the function that creates an array before its state is read."""

    def __new__(cls, *_: Any) -> _Array:  # type: ignore[misc]
        return _Array()


class _Encode(StandIn):
    """Stands in for the function by which Python 3 writes bytes into a pickle that Python 2 can read."""

    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"a text has the encoding {encoding!r}")
        return str.encode(text, "latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _Encode,
}


_NOTES = ("PUT", "BINPUT", "LONG_BINPUT")  # operations that note a value under a number


class RestrictedUnpickler(pickle.Unpickler):
    """Gives a pickle the stand-ins for the names that a subclass lists, and refuses every other name."""

    allowed: Mapping[tuple[str, str], Any] = {}
    kind = ""  # of files, for errors

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name; pickle.Unpickler calls it for every name in the pickle."""
        try:
            return self.allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no {self.kind} file needs") from None


class _Unpickler(RestrictedUnpickler):
    allowed = _ALLOWED
    kind = "data"


def refuse_far_memo(operation: str, argument: Any, length: int) -> None:
    """Refuse to note a value under a number above the pickle's length: Python would make a table of that size."""
    if operation in _NOTES and argument > length:
        raise pickle.UnpicklingError(f"it notes a value under the number {argument:,}, but has only {length:,} bytes")


def load_dict(file: BinaryIO, name: str) -> dict[str, Any]:
    """Read a pickled dict with text keys; uint8 arrays become arrays, Python 2's texts bytes. `name` is for errors."""
    try:
        data = file.read()
        for operation, argument, _ in pickletools.genops(data):
            refuse_far_memo(operation.name, argument, len(data))
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise any error: EOF, index, memory, attribute, …
        raise DataError(f"{name} cannot be read as a data batch: {error or type(error).__name__}") from None
    if type(content) is not dict or any(type(key) not in (str, bytes) for key in content):
        raise DataError(f"{name} is not a data batch: it has no named values")
    return {_text(key): value.value if type(value) is _Array else value for key, value in content.items()}


def _text(key: str | bytes) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else key
