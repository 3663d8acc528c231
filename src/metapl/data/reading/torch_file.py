"""Read the tensors of a file that PyTorch wrote before version 1.6, without PyTorch and without running anything in it.

Such a file is five pickles and then the numbers:

    a magic number, a protocol number, facts about the machine,
    {name: tensor}, where a tensor says which storage it is a part of, its offset, sizes and strides,
    the storages' keys; then for each key: how many numbers (int64), and the numbers

A pickle is a program. Before we run one, we compare its operations with a list. While it runs, it gets stand-ins
(unpickle.py) that can hold a name, a number or the description of a tensor, and nothing else. Then we take the numbers
of a tensor from its storage by index, so no offset or stride reaches memory outside of it.
"""

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import DataError
from metapl.data.reading.unpickle import RestrictedUnpickler, StandIn

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
LARGEST = 1 << 30  # bytes of a file
MOST_SIDES = 8  # of a tensor

# What such files consist of. Not here: operations that call by other ways (INST, OBJ, NEWOBJ, EXT1, STACK_GLOBAL, …).
_CONTROL = ("PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID")
_MEMO = ("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET")
_VALUES = ("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE")
_TUPLES = ("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_CONTAINERS = ("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS")
_OPERATIONS = frozenset(_CONTROL + _MEMO + _VALUES + _TUPLES + _CONTAINERS)


class _Floats(StandIn):
    """Stands in for torch.FloatStorage."""

    dtype = np.dtype("<f4")


class _Longs(StandIn):
    """Stands in for torch.LongStorage."""

    dtype = np.dtype("<i8")


class _Storage(NamedTuple):
    """A row of numbers that tensors are parts of."""

    key: str
    dtype: np.dtype[Any]
    length: int


class _Tensor(StandIn):
    """Stands in for the function that makes a tensor: holds its description, once that is checked."""

    def __init__(self, storage: Any, offset: Any, sizes: Any, strides: Any, *_: Any) -> None:
        if type(storage) is not _Storage or not _whole((offset,)) or not _whole(sizes) or not _whole(strides):
            raise pickle.UnpicklingError("a tensor has an unknown layout")
        if len(sizes) != len(strides) or len(sizes) > MOST_SIDES or 0 in sizes:
            raise pickle.UnpicklingError(f"a tensor has sizes {sizes} and strides {strides}")
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if last >= storage.length or math.prod(sizes) > storage.length:
            raise pickle.UnpicklingError("a tensor claims numbers that its storage does not have")
        self.storage, self.offset, self.sizes, self.strides = storage, offset, sizes, strides

    def of(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Take the tensor's numbers from its storage's."""
        places = np.full(self.sizes, self.offset)
        for axis, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            along = [size if axis == other else 1 for other in range(len(self.sizes))]
            places += (np.arange(size) * stride).reshape(along)
        return np.asarray(numbers[places])


class _Names(StandIn):
    """Stands in for collections.OrderedDict: values by a text."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is not str:
            raise pickle.UnpicklingError("a tensor's name is not a text")
        self.values[key] = value

    def __setstate__(self, state: Any) -> None:
        """Ignore PyTorch's notes on the versions of its modules."""


class _Unpickler(RestrictedUnpickler):
    kind = "weights"
    allowed = {  # noqa: RUF012 (nothing writes to it)
        ("collections", "OrderedDict"): _Names,
        ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
        ("torch", "FloatStorage"): _Floats,
        ("torch", "LongStorage"): _Longs,
    }

    def persistent_load(self, pid: Any) -> _Storage:
        """Note a storage, ("storage", type, key, device, length, None); its numbers come after the pickles."""
        if type(pid) is not tuple or len(pid) != 6 or pid[0] != "storage" or pid[5] is not None:
            raise pickle.UnpicklingError("a storage has an unknown layout")
        _, kind, key, _, length, _ = pid
        if kind not in (_Floats, _Longs) or type(key) is not str or not _whole((length,)):
            raise pickle.UnpicklingError("a storage has an unknown layout")
        return _Storage(key, kind.dtype, length)


def load_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read all tensors by their names; DataError if the file is damaged, of another kind, or names anything else."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        return _tensors(io.BytesIO(path.read_bytes()))
    except Exception as error:  # a damaged pickle can raise any error: EOF, index, memory, attribute, …
        raise DataError(
            f"{path} cannot be read as weights of PyTorch before 1.6: {error or type(error).__name__}"
        ) from None


def _tensors(file: io.BytesIO) -> dict[str, NDArray[Any]]:
    magic, protocol, machine = _unpickled(file), _unpickled(file), _unpickled(file)
    if (magic, protocol) != (MAGIC, PROTOCOL) or machine.get("little_endian") is not True:
        raise ValueError("it has another format")
    names, keys = _unpickled(file), _unpickled(file)
    if type(names) is not _Names or not all(type(tensor) is _Tensor for tensor in names.values.values()):
        raise ValueError("it holds other things than tensors")
    tensors: dict[str, _Tensor] = names.values
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    if any(tensor.storage != storages[tensor.storage.key] for tensor in tensors.values()):
        raise ValueError("two storages have the same key")
    if sum(math.prod(tensor.sizes) for tensor in tensors.values()) > sum(
        storage.length for storage in storages.values()
    ):
        raise ValueError("its tensors claim more numbers than it has")
    if type(keys) is not list or any(type(key) is not str for key in keys) or sorted(keys) != sorted(storages):
        raise ValueError("its storages are not those that its tensors need")
    numbers = {key: _numbers(file, storages[key]) for key in keys}
    return {name: tensor.of(numbers[tensor.storage.key]) for name, tensor in tensors.items()}


def _unpickled(file: io.BytesIO) -> Any:
    """Run the pickle that begins here, after a look at all its operations."""
    start = file.tell()
    for number, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if operation.name not in _OPERATIONS:
            raise ValueError(f"it has the operation {operation.name}, which no weights file needs")
        # A memo's place far beyond the number of operations would fill the memory.
        if operation.name in ("BINPUT", "LONG_BINPUT") and (argument or 0) > number:
            raise ValueError("its memo has gaps")
    return _Unpickler(io.BytesIO(file.getbuffer()[start : file.tell()])).load()


def _numbers(file: io.BytesIO, storage: _Storage) -> NDArray[Any]:
    length = int.from_bytes(file.read(8), "little")
    data = file.read(storage.length * storage.dtype.itemsize)
    if length != storage.length or len(data) != storage.length * storage.dtype.itemsize:
        raise ValueError("it ends too early, or its storages have other sizes than its tensors say")
    return np.frombuffer(data, storage.dtype)


def _whole(numbers: Any) -> bool:
    """Whether it is a tuple of integers that are not negative."""
    return type(numbers) is tuple and all(type(number) is int and number >= 0 for number in numbers)
