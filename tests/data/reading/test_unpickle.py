"""A hostile file cannot run code: whatever a pickle names or does, at most an error comes out."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapl.data.reading import unpickle
from metapl.data.reading.decode import DataError
from metapl.data.reading.unpickle import load_dict


class Calls:
    """Pickles to a call of `function`."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def by_name(module: str, name: str, argument: str) -> bytes:
    """A pickle, by hand, that calls module.name(argument)."""
    return f"c{module}\n{name}\n(V{argument}\ntR.".encode()


def test_arrays_and_containers_are_read() -> None:
    wanted = {"data": np.arange(12, dtype=np.uint8).reshape(3, 4), "labels": [1, 2, 3], "names": [b"a", "b"]}
    found = load_dict(io.BytesIO(pickle.dumps(wanted, protocol=2)), "x")
    np.testing.assert_array_equal(found["data"], wanted["data"])
    assert found["data"].dtype == np.uint8
    assert found["labels"] == [1, 2, 3]
    assert found["names"] == [b"a", "b"]


@pytest.mark.parametrize("protocol", range(6))
def test_os_system_does_not_run(tmp_path: Path, protocol: int) -> None:
    hit = tmp_path / "hit"
    hostile = pickle.dumps({"data": Calls(os.system, f"touch {hit}")}, protocol=protocol)
    with pytest.raises(DataError, match=r"evil.*(posix|nt|os)\.system"):
        load_dict(io.BytesIO(hostile), "evil")
    assert not hit.exists()
    pickle.loads(hostile)  # the attack itself is real
    assert hit.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "getattr"),
        ("builtins", "__import__"),
        ("__builtin__", "eval"),
        ("numpy", "load"),
        ("numpy", "memmap"),
        ("numpy", "ndarray.tofile"),
        ("numpy", "ndarray.__reduce__.__globals__"),
        ("numpy", "dtype.__class__"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy.testing._private.utils", "runstring"),
        ("numpy.core.numerictypes", "__builtins__"),
        ("numpy.f2py.diagnose", "run_command"),
        ("_codecs", "decode"),
        ("_codecs", "lookup"),
        ("codecs", "open"),
        ("copyreg", "_reconstructor"),
        ("operator", "attrgetter"),
        ("functools", "partial"),
    ],
)
def test_no_other_name_is_found(module: str, name: str) -> None:
    with pytest.raises(DataError, match="which no data file needs"):
        load_dict(io.BytesIO(by_name(module, name, "x")), "evil")


def test_real_numpy_functions_are_never_handed_out() -> None:
    for stand_in in unpickle._ALLOWED.values():
        assert stand_in.__module__ == "metapl.data.reading.unpickle"


@pytest.mark.parametrize(("module", "name"), list(unpickle._ALLOWED))
def test_stand_ins_cannot_be_changed_from_a_pickle(module: str, name: str) -> None:
    # BUILD with (None, {…}) sets attributes on whatever lies below: a class without __setstate__ would be changed.
    before = dict(vars(unpickle._ALLOWED[module, name]))
    hostile = b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"N}X\x05\0\0\0valueK\x01s\x86b0}."
    with pytest.raises(DataError):
        load_dict(io.BytesIO(hostile), "evil")
    assert dict(vars(unpickle._ALLOWED[module, name])) == before


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, np.int8),
        np.zeros(3, np.float32),
        np.zeros(3, object),
        np.zeros(3, "V8"),
        np.asfortranarray(np.zeros((3, 4), np.uint8)),
    ],
)
def test_only_plain_bytes_become_arrays(array: np.ndarray) -> None:
    with pytest.raises(DataError):
        load_dict(io.BytesIO(pickle.dumps({"data": array}, protocol=2)), "x")


def test_an_array_cannot_claim_more_than_it_has() -> None:
    honest = pickle.dumps({"data": np.zeros((7, 9), np.uint8)}, protocol=2)
    assert honest.count(b"K\x07K\x09\x86") == 1
    with pytest.raises(DataError, match="shape and bytes do not match"):
        load_dict(io.BytesIO(honest.replace(b"K\x07K\x09\x86", b"K\x77K\x79\x86")), "x")


@pytest.mark.parametrize("content", [b"", b"\x80", b"}", b"garbage", b"\x80\x02]q\x00.", b"\x80\x02}K\x01K\x02s."])
def test_broken_files_are_named(content: bytes) -> None:
    with pytest.raises(DataError, match="batch_7"):
        load_dict(io.BytesIO(content), "batch_7")


def test_a_pickle_that_would_fill_the_memory_is_refused():
    """Found by mutation: one wrong byte in a pickle of 300 bytes took 22 GB."""
    for operation in (b"r\xff\xff\xff\x7f", b"p2147483647\n"):
        with pytest.raises(DataError, match="it notes a value under the number 2,147,483,647"):
            load_dict(io.BytesIO(b"\x80\x02}" + operation + b"."), "data_batch_1")
