"""Checkpoints on disk: written by orbax while the training goes on, whole or not there, checked before they are read.

checkpoints/step-00001500/ holds `state/` (orbax), `note.json` (all that is no large array), `confusions.npz`, and
`manifest.json` with the size and the CRC-32C of every other file. It is written under another name (tmp-…) and renamed
when all of it is on the disk, so that a step-… folder is a whole one, unless a disk or a person has damaged it: then a
checksum tells. Nothing in it is executed when it is read.
"""

import errno
import json
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import jax
import numpy as np
from numpy.typing import NDArray

from metapl.schema import ConfigError
from metapl.system import processes
from metapl.system.disk import sync, write_atomically
from metapl.types import PyTree

FOLDER, WHOLE, GROWING, FADING, DAMAGED = "checkpoints", "step-", "tmp-", "old-", "damaged-"
STATE, NOTE, ARRAYS, MANIFEST = "state", "note.json", "confusions.npz", "manifest.json"

Note = dict[str, Any]
Arrays = Mapping[str, NDArray[np.generic]]


class Contents(NamedTuple):
    """What one checkpoint holds."""

    tree: PyTree  # arrays on the device, or their shapes
    note: Note
    arrays: Arrays


class Writer:
    """Writes one checkpoint at a time, in a thread of its own; says which were written and which could not be."""

    def __init__(self, folder: Path, written: Callable[[str, Note], None], failed: Callable[[str, Exception], None]):
        self._folder, self._written, self._failed = folder, written, failed
        self._thread: threading.Thread | None = None
        self._orbax: Any = None
        self._link = ExitStack()  # open as long as orbax writes
        self._good = True
        self._written_before = 0

    def write(self, name: str, contents: Contents, keep: Collection[str]) -> None:
        """Copy what the device holds, and write it behind the loop's back; then remove all others that `keep` lacks."""
        self.wait()
        exists, wrong = processes.leader_decides(lambda: self._make_room(name))
        if exists:  # the run was here before, and was then as it is now
            return
        ocp = _orbax()
        self._orbax = self._orbax or ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
        growing = self._folder / f"{GROWING}{name}"
        try:
            if wrong:
                raise OSError(wrong, os.strerror(wrong))
            # Returns when all arrays are copied to the host: the loop gives them away at its next piece.
            place = self._link.enter_context(_plain(growing))
            self._orbax.save(place / STATE, args=ocp.args.PyTreeSave(contents.tree))
        except Exception as error:
            self._give_up(name, error)
            return
        self._written_before += 1
        rest = (name, contents.note, contents.arrays, keep, f"checkpoint {self._written_before}")
        self._thread = threading.Thread(target=self._finish, args=rest, name="checkpoint")
        self._thread.start()

    def wait(self) -> bool:
        """Wait for the checkpoint that is being written; could the last one be?"""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._good

    def _make_room(self, name: str) -> tuple[bool, int]:
        """Is the checkpoint there already? If not, make its folder; what the system says against that is a number."""
        if (self._folder / name).exists():
            return True, 0
        try:
            for path in self._folder.glob(f"{GROWING}*"):  # of one that failed, arrays may come late
                shutil.rmtree(path, ignore_errors=True)
            (self._folder / f"{GROWING}{name}").mkdir(parents=True)
        except OSError as error:
            return False, error.errno or errno.EIO
        return False, 0

    def _finish(self, name: str, note: Note, arrays: Arrays, keep: Collection[str], place: str) -> None:
        """Wait for the arrays; the rest is one process's, and the others wait until the checkpoint has its name."""
        try:
            self._orbax.wait_until_finished()
            self._link.close()
            if processes.is_leader():
                self._complete(name, note, arrays, keep)
            self._good = True
            self._written(name, note)
        except Exception as error:
            self._give_up(name, error)
        processes.barrier(place)

    def _complete(self, name: str, note: Note, arrays: Arrays, keep: Collection[str]) -> None:
        growing = self._folder / f"{GROWING}{name}"
        (growing / NOTE).write_text(json.dumps(note), "utf-8")
        np.savez(growing / ARRAYS, allow_pickle=False, **arrays)
        write_atomically(growing / MANIFEST, json.dumps(_measure(growing), indent=1).encode())
        growing.rename(self._folder / name)
        sync(self._folder)
        prune(self._folder, {name, *keep})

    def _give_up(self, name: str, error: Exception) -> None:
        """The training goes on without it: what was written of it only takes room."""
        self._good, self._orbax = False, None
        self._link.close()
        if processes.is_leader():
            shutil.rmtree(self._folder / f"{GROWING}{name}", ignore_errors=True)
        self._failed(name, error)


def _orbax() -> Any:
    """Import it when it is needed: runs of seconds wait for it only at their end."""
    import orbax.checkpoint as ocp

    # What goes wrong is an exception, which we tell in a sentence; orbax logs pages of tracebacks of its threads, too.
    logging.getLogger("absl").addFilter(_not_from_orbax)
    logging.getLogger("asyncio").addFilter(_not_one_of_many)
    _let_late_answers_go()
    return ocp


def _not_from_orbax(record: logging.LogRecord) -> bool:
    return "orbax" not in Path(record.pathname).parts


def _not_one_of_many(record: logging.LogRecord) -> bool:
    """Where one array cannot be written, the others cannot either, and nobody asks about them."""
    return "exception was never retrieved" not in record.getMessage()


@cache
def _let_late_answers_go() -> None:
    """Arrays whose writing ends after orbax has given up find its event loop closed: that is no news."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    sys.unraisablehook = hook


@contextmanager
def _plain(folder: Path) -> Iterator[Path]:
    """A path of the folder that orbax may be given: it finds its files by patterns, where [ and \\ are no letters.

    Under such a name it would write a checkpoint without its table of contents, and say nothing.
    """
    if not {"[", "\\"} & set(str(folder.absolute())):
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory() as scratch:
        link = Path(scratch) / "checkpoint"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield link


def names(folder: Path) -> list[str]:
    """Checkpoints that were written to their end, the oldest first."""
    return sorted(path.name for path in folder.glob(f"{WHOLE}*") if path.is_dir())


def name_of(steps_done: int) -> str:
    """Names that sort as the run goes: by the steps of all stages and groups of seeds before."""
    return f"{WHOLE}{steps_done:010d}"


def prune(folder: Path, keep: Collection[str]) -> None:
    """Remove what is not to be kept; a kill on the way leaves no half checkpoint that looks like one."""
    for name in names(folder):
        if name not in keep:
            (folder / name).rename(folder / f"{FADING}{name}")
    for path in folder.glob(f"{FADING}*"):
        shutil.rmtree(path, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Give a damaged or half-written checkpoint a name under which nobody takes it for a good one."""
    for number in range(1, 10_000):
        target = path.with_name(f"{DAMAGED}{path.name}" + (f"-{number}" if number > 1 else ""))
        if not target.exists():
            return path.rename(target)
    raise ConfigError(f"{path} is damaged, and there are 10,000 of them already")


def damage(path: Path) -> str:
    """What is wrong with a checkpoint, in words; empty if nothing is."""
    try:
        noted = json.loads((path / MANIFEST).read_text("utf-8"))
        for name, (size, crc32c) in noted.items():
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != size:
                return f"{name} has {file.stat().st_size:,} bytes instead of {size:,}"
            if _crc32c(file) != crc32c:
                return f"{name} has another checksum"
        if NOTE not in noted or ARRAYS not in noted:
            return f"{MANIFEST} is incomplete"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, TypeError, AttributeError):
        return f"{MANIFEST} is no list of files"
    return ""


def read_note(path: Path) -> Note:
    """The small things of a checkpoint."""
    note: Note = json.loads((path / NOTE).read_text("utf-8"))
    return note


def read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays that are not the state."""
    with np.load(path / ARRAYS, allow_pickle=False) as file:
        return dict(file)


def read_tree(path: Path, like: PyTree) -> PyTree:
    """The state; `like` has its structure, shapes and types, and says where it belongs if that is not one device.

    Where it was when it was saved, on which devices and on how many, does not matter.
    """
    ocp = _orbax()

    def kind(leaf: Any) -> Any:
        place = getattr(leaf, "sharding", None)
        if place is None:
            return ocp.RestoreArgs(restore_type=np.ndarray)
        return ocp.ArrayRestoreArgs(sharding=place)  # each process reads its own parts alone

    kinds = jax.tree.map(kind, like)
    try:
        with _plain(path) as place, ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as orbax:
            found = orbax.restore(place / STATE, args=ocp.args.PyTreeRestore(like, restore_args=kinds))
        fits = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), found, like)
    except (ValueError, KeyError, TypeError):  # another structure; the files themselves were checked before
        fits = False
    if not all(jax.tree.leaves(fits)):
        raise ConfigError(
            f"{path} does not fit this version's networks and optimizers; go on with the one that wrote it"
        )
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf), found)


def _measure(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and checksum of every file, once it is on the disk."""
    found = {}
    for path in sorted(folder.rglob("*")):
        sync(path)
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = (path.stat().st_size, _crc32c(path))
    return found


def _crc32c(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = google_crc32c.extend(value, block)
    return f"{value:08x}"
