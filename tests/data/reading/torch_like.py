"""Write files as PyTorch did before version 1.6, without PyTorch: for tests of what reads them."""

import pickle
import struct
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapl.data.reading.torch_file import MAGIC, PROTOCOL

MACHINE = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
KINDS = {np.dtype("float32"): "FloatStorage", np.dtype("int64"): "LongStorage", np.dtype("float16"): "HalfStorage"}


class Name(NamedTuple):
    """A name that a pickle mentions; it need not exist."""

    module: str
    name: str

    def __call__(self) -> None:
        """Pickle calls what can be called only."""


class Storage(NamedTuple):
    key: str
    kind: str
    length: int


class Tensor(NamedTuple):
    """What a file says about a tensor."""

    storage: Any
    offset: Any
    sizes: Any
    strides: Any


class Call(NamedTuple):
    function: Any
    arguments: tuple[Any, ...]


class _Pickler(pickle._Pickler):
    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Name):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Storage):
            self.save(("storage", Name("torch", obj.kind), obj.key, "cpu", obj.length, None))
            self.write(pickle.BINPERSID)
        elif isinstance(obj, Tensor):
            self.save(Call(Name("torch._utils", "_rebuild_tensor_v2"), (*obj, False, OrderedDict())))
        elif isinstance(obj, Call):
            self.save_reduce(obj.function, obj.arguments)
        else:
            super().save(obj, save_persistent_id)


def pickled(value: Any) -> bytes:
    file = BytesIO()
    _Pickler(file, 2).dump(value)
    return file.getvalue()


def tensor(key: str, array: np.ndarray) -> Tensor:
    """A tensor that is a whole storage, with the array's own strides."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Tensor(Storage(key, KINDS[array.dtype], array.size), 0, array.shape, strides)


def numbers(array: np.ndarray) -> bytes:
    """The storage of an array in the order of its memory."""
    return struct.pack("<q", array.size) + array.ravel(order="K").tobytes()


def content(tensors: Any, keys: Any, data: bytes, machine: Any = MACHINE) -> bytes:
    """A whole file."""
    return b"".join(pickled(value) for value in (MAGIC, PROTOCOL, machine, tensors, keys)) + data


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by their names, each as it lies in memory."""
    tensors = OrderedDict((name, tensor(f"key of {name}", array)) for name, array in arrays.items())
    tensors.__dict__["_metadata"] = OrderedDict([("", {"version": 1})])
    keys = sorted(f"key of {name}" for name in arrays)
    data = b"".join(numbers(arrays[key.removeprefix("key of ")]) for key in keys)
    path.write_bytes(content(tensors, keys, data))
