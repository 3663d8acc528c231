"""Old PyTorch files: tensors are read with their strides; hostile and damaged files give a sentence, nothing else."""

import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapl.data.reading import torch_file
from metapl.data.reading.decode import DataError
from metapl.data.reading.torch_file import load_tensors
from tests.data.reading import torch_like
from tests.data.reading.torch_like import Call, Name, Storage, Tensor

NUMBERS = np.arange(24, dtype=np.float32)
ALLOWED = torch_file._Unpickler.allowed


def refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "evil.pth").write_bytes(content)
    with pytest.raises(DataError, match=rf"evil\.pth cannot be read as weights .*{words}"):
        load_tensors(tmp_path / "evil.pth")


def with_tensor(tensor: Any, array: np.ndarray = NUMBERS, key: str = "k") -> bytes:
    return torch_like.content(OrderedDict(w=tensor), [key], torch_like.numbers(array))


def test_tensors_are_read_with_their_strides(tmp_path: Path) -> None:
    arrays = {
        "plain": NUMBERS.reshape(2, 3, 4),
        "transposed": NUMBERS.reshape(4, 3, 2).T,
        "turned": np.moveaxis(NUMBERS.reshape(1, 2, 3, 4), -1, 0),
        "count": np.array(7, np.int64),
    }
    assert arrays["transposed"].strides != np.zeros((2, 3, 4), np.float32).strides
    torch_like.write(tmp_path / "w.pth", arrays)
    tensors = load_tensors(tmp_path / "w.pth")
    assert list(tensors) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name], array)
        assert tensors[name].dtype == array.dtype


def test_two_tensors_can_be_parts_of_one_storage(tmp_path: Path) -> None:
    row = Storage("k", "FloatStorage", 24)
    tensors = OrderedDict(a=Tensor(row, 2, (2, 3), (12, 2)), b=Tensor(row, 23, (1,), (1,)))
    (tmp_path / "w.pth").write_bytes(torch_like.content(tensors, ["k"], torch_like.numbers(NUMBERS)))
    parts = load_tensors(tmp_path / "w.pth")
    np.testing.assert_array_equal(parts["a"], [[2, 4, 6], [14, 16, 18]])
    np.testing.assert_array_equal(parts["b"], [23])


# --- attacks ----------------------------------------------------------------------------------------------------------


class Runs:
    """Pickles to a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("place", range(5))
def test_no_pickle_of_the_five_runs_code(tmp_path: Path, place: int) -> None:
    hit = tmp_path / "hit"
    attack = pickle.dumps(Runs(f"touch {hit}"), protocol=2)
    tensors = OrderedDict(w=torch_like.tensor("k", NUMBERS))
    honest = [torch_like.MAGIC, torch_like.PROTOCOL, torch_like.MACHINE, tensors, ["k"]]
    pickles = [torch_like.pickled(value) for value in honest]
    pickles[place] = attack
    refused(tmp_path, b"".join(pickles) + torch_like.numbers(NUMBERS), r"posix\.system, which no weights file needs")
    assert not hit.exists()
    pickle.loads(attack)  # the attack itself is real
    assert hit.exists()


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_nor_does_one_of_another_protocol(tmp_path: Path, protocol: int) -> None:
    hit = tmp_path / "hit"
    refused(tmp_path, pickle.dumps(Runs(f"touch {hit}"), protocol=protocol), "which no weights file needs")
    assert not hit.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("__builtin__", "exec"),
        ("torch", "load"),
        ("torch", "HalfStorage"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("torch.storage", "_load_from_bytes"),
        ("torch.serialization", "load"),
        ("torch.hub", "load"),
        ("collections", "OrderedDict.__init__"),
        ("collections", "namedtuple"),
        ("numpy", "load"),
        ("copyreg", "_reconstructor"),
        ("functools", "partial"),
    ],
)
def test_no_other_name_is_found(tmp_path: Path, module: str, name: str) -> None:
    attack = OrderedDict(w=Call(Name(module, name), ("x",)))
    refused(tmp_path, torch_like.content(attack, [], b""), "which no weights file needs")


@pytest.mark.parametrize(
    ("operation", "content"),
    [
        ("INST", b"(X\x01\0\0\0xios\nsystem\n."),
        ("STACK_GLOBAL", b"X\x02\0\0\0osX\x06\0\0\0system\x93."),
        ("NEWOBJ", b"ccollections\nOrderedDict\n)\x81."),
        ("OBJ", b"(ccollections\nOrderedDict\no."),
        ("EXT1", b"\x82\x01."),
        ("PERSID", b"Px\n."),
        ("NEXT_BUFFER", b"\x97."),
        ("BINUNICODE8", b"\x8d\xff\xff\xff\xff\xff\xff\0\0."),
    ],
)
def test_operations_that_such_files_do_not_need_are_refused(tmp_path: Path, operation: str, content: bytes) -> None:
    refused(tmp_path, content, "" if operation == "BINUNICODE8" else f"the operation {operation}")


def test_a_place_of_the_memo_cannot_fill_the_memory(tmp_path: Path) -> None:
    refused(tmp_path, b"\x80\x02Nr\xff\xff\xff\xff.", "its memo has gaps")


@pytest.mark.parametrize(("module", "name"), list(ALLOWED))
def test_stand_ins_cannot_be_changed_from_a_pickle(tmp_path: Path, module: str, name: str) -> None:
    before = dict(vars(ALLOWED[module, name]))
    content = b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"N}X\x05\0\0\0dtypeK\x01s\x86b0}."
    refused(tmp_path, content, "")
    assert dict(vars(ALLOWED[module, name])) == before


def test_stand_ins_are_ours() -> None:
    assert {stand_in.__module__ for stand_in in ALLOWED.values()} == {"metapl.data.reading.torch_file"}


# --- tensors that lie -------------------------------------------------------------------------------------------------

ROW = Storage("k", "FloatStorage", 24)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor(ROW, 0, (25,), (1,)), "does not have"),
        (Tensor(ROW, 1, (24,), (1,)), "does not have"),
        (Tensor(ROW, 0, (2, 2), (1, 23)), "does not have"),
        (Tensor(ROW, 0, (1 << 40,), (0,)), "does not have"),
        (Tensor(ROW, -1, (1,), (1,)), "unknown layout"),
        (Tensor(ROW, 5, (2,), (-5,)), "unknown layout"),
        (Tensor(ROW, 0, (-2,), (1,)), "unknown layout"),
        (Tensor(ROW, 0, (True,), (1,)), "unknown layout"),
        (Tensor(ROW, 0, [2], (1,)), "unknown layout"),
        (Tensor("k", 0, (2,), (1,)), "unknown layout"),
        (Tensor(ROW, 0, (2,), (1, 1)), "strides"),
        (Tensor(ROW, 0, (0,), (1,)), "strides"),
        (Tensor(ROW, 0, (1,) * 9, (1,) * 9), "strides"),
        (Tensor(Storage("k", "FloatStorage", -1), 0, (2,), (1,)), "a storage"),
        (Tensor(Storage("k", "FloatStorage", 1 << 40), 0, (2,), (1,)), "ends too early"),
        (Tensor(Storage("k", "FloatStorage", 23), 0, (2,), (1,)), "ends too early"),
        (Tensor(Storage("other", "FloatStorage", 24), 0, (2,), (1,)), "its storages are not those"),
        (3, "other things than tensors"),
    ],
)
def test_a_tensor_cannot_reach_beyond_its_storage(tmp_path: Path, tensor: Any, words: str) -> None:
    refused(tmp_path, with_tensor(tensor), words)


def test_many_tensors_cannot_multiply_one_storage(tmp_path: Path) -> None:
    tensors = OrderedDict((str(number), Tensor(ROW, 0, (24,), (1,))) for number in range(3))
    content = torch_like.content(tensors, ["k"], torch_like.numbers(NUMBERS))
    refused(tmp_path, content, "claim more numbers than it has")


def test_one_key_cannot_name_two_storages(tmp_path: Path) -> None:
    tensors = OrderedDict(a=Tensor(ROW, 0, (2,), (1,)), b=Tensor(Storage("k", "LongStorage", 12), 0, (2,), (1,)))
    refused(tmp_path, torch_like.content(tensors, ["k"], torch_like.numbers(NUMBERS)), "two storages")


def test_names_are_texts(tmp_path: Path) -> None:
    tensors = OrderedDict([(1, torch_like.tensor("k", NUMBERS))])
    refused(tmp_path, torch_like.content(tensors, ["k"], torch_like.numbers(NUMBERS)), "name is not a text")


# --- damaged files ----------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = with_tensor(torch_like.tensor("k", NUMBERS))
    for length in range(0, len(whole), 7):
        refused(tmp_path, whole[:length], "")


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 the zip files of newer versions",
        torch_like.pickled(1) + b"more",
        torch_like.content(OrderedDict(), [], b"", {"little_endian": False}),
        torch_like.content(OrderedDict(), [], b"", "nothing"),
        torch_like.content([], [], b""),
        torch_like.content(OrderedDict(), ["k"], b""),
        torch_like.content(OrderedDict(), {"k": 1}, struct.pack("<q", 0)),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    refused(tmp_path, content, "")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.pth"):
        load_tensors(tmp_path / "absent.pth")
