"""Checkpoints are whole or not there, and only what is replaced is removed."""

import logging
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.runs.checkpoint import (
    Contents,
    Writer,
    damage,
    name_of,
    names,
    prune,
    read_arrays,
    read_note,
    read_tree,
    set_aside,
)
from metapl.schema import ConfigError
from metapl.system.disk import reason
from metapl.types import Weights


def contents(size: int = 10) -> Contents:
    tree = Weights({"w": jnp.arange(size, dtype=jnp.float32) / 7, "half": jnp.ones((2, 3), jnp.bfloat16)}, {})
    return Contents((tree, None), {"step": 1, "nll": float("nan")}, {"seeds": np.array([3])})


class Told:
    def __init__(self, folder: Path) -> None:
        self.written: list[str] = []
        self.failed: list[Exception] = []
        self.writer = Writer(folder, lambda name, _: self.written.append(name), lambda _, e: self.failed.append(e))

    def write(self, step: int, some: Contents, keep: Any = ()) -> bool:
        self.writer.write(name_of(step), some, keep)
        return self.writer.wait()


@pytest.mark.parametrize("name", ["c", "[red] ü", "a\\b"])  # orbax takes the last two for patterns
def test_what_is_read_is_what_was_written(tmp_path, name):
    told, some = Told(tmp_path / name), contents()
    assert told.write(1, some)
    path = tmp_path / name / name_of(1)
    assert (damage(path), told.written) == ("", [path.name])
    assert read_note(path)["step"] == 1
    assert read_arrays(path)["seeds"].tolist() == [3]
    found = read_tree(path, jax.eval_shape(lambda: some.tree))
    assert jax.tree.structure(found) == jax.tree.structure(some.tree)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(some.tree), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("other", [contents(11).tree, (contents().tree[0], {"more": jnp.zeros(1)})])
def test_what_does_not_fit_is_refused(tmp_path, other):
    Told(tmp_path).write(1, contents())
    with pytest.raises(ConfigError, match="does not fit this version"):
        read_tree(tmp_path / name_of(1), jax.eval_shape(lambda: other))


def test_a_disk_that_refuses_leaves_the_older_ones_and_no_half_one(tmp_path, capfd):
    """A limit on the size of files: the refusal comes from the system, deep inside of orbax."""
    told = Told(tmp_path)
    assert told.write(1, contents())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        good = told.write(2, contents(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not good
    assert [path.name for path in tmp_path.iterdir()] == [name_of(1)]
    assert reason(told.failed[0]) == "File too large"
    assert "Traceback" not in capfd.readouterr().err
    assert told.write(3, contents(1_000_000))
    assert names(tmp_path) == [name_of(3)]


def test_arrays_that_fail_after_the_first_are_no_news(tmp_path, capfd):
    """On a full disk orbax stops at the first array that fails; the others answer later, when nobody listens."""
    Told(tmp_path).write(1, contents())
    late = RuntimeError("Event loop is closed")
    sys.unraisablehook(SimpleNamespace(exc_type=RuntimeError, exc_value=late, exc_traceback=None, err_msg=None))
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: …")
    assert capfd.readouterr().err == ""


def test_what_late_arrays_leave_behind_goes_with_the_next_checkpoint(tmp_path):
    (tmp_path / f"tmp-{name_of(1)}" / "state").mkdir(parents=True)
    Told(tmp_path).write(2, contents())
    assert [path.name for path in tmp_path.iterdir()] == [name_of(2)]


def test_all_but_what_is_kept_goes_and_nothing_that_is_not_ours(tmp_path):
    for name in (name_of(1), name_of(2), name_of(3), "damaged-step-0000000002", "mine", f"old-{name_of(0)}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    prune(tmp_path, {name_of(2)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged-step-0000000002", "mine", name_of(2)]


def test_what_is_set_aside_never_takes_the_place_of_another(tmp_path):
    for _ in range(3):
        (tmp_path / "step-1").mkdir()
        set_aside(tmp_path / "step-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "damaged-step-1",
        "damaged-step-1-2",
        "damaged-step-1-3",
    ]
