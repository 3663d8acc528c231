"""Checkpoints on disk: written by orbax while training goes on, complete or absent, and checked before they are read.

checkpoints/step-0000001500/ holds `state/` (orbax), `note.json` (everything but large arrays), `confusions.npz`, and
`manifest.json` with the size and the CRC-32C of every other file. It is written under another name (tmp-…) and renamed
when all of it is on the disk. So a step-… folder is complete; if a disk or a person has damaged it, a checksum shows
it. Nothing in it is executed when it is read.
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

FOLDER, COMPLETE, PARTIAL, DELETING, DAMAGED = "checkpoints", "step-", "tmp-", "old-", "damaged-"
STATE, NOTE, ARRAYS, MANIFEST = "state", "note.json", "confusions.npz", "manifest.json"

Note = dict[str, Any]
Arrays = Mapping[str, NDArray[np.generic]]


class MismatchError(ConfigError):
    """A checkpoint whose state has another structure than this version's networks and optimizers."""


class Contents(NamedTuple):
    """What one checkpoint holds."""

    tree: PyTree  # arrays on the device, or their shapes
    note: Note
    arrays: Arrays


class Writer:
    """Writes one checkpoint at a time, in a thread; calls `written` or `failed` for each."""

    def __init__(self, folder: Path, written: Callable[[str, Note], None], failed: Callable[[str, Exception], None]):
        self._folder, self._written, self._failed = folder, written, failed
        self._thread: threading.Thread | None = None
        self._orbax: Any = None
        self._link = ExitStack()  # open while orbax writes
        self._good = True
        self._written_before = 0

    def write(self, name: str, contents: Contents, keep: Collection[str]) -> None:
        """Copy the arrays from the device, write them in the background, then delete the checkpoints not in `keep`."""
        self.wait()
        exists, wrong = processes.leader_decides(lambda: self._make_room(name))
        if exists:  # written by an earlier session, with the same content
            return
        ocp = _orbax()
        self._orbax = self._orbax or ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
        partial = self._folder / f"{PARTIAL}{name}"
        try:
            if wrong:
                raise OSError(wrong, os.strerror(wrong))
            # Returns when all arrays are copied to the host: the loop donates them to its next chunk of steps.
            place = self._link.enter_context(_plain(partial))
            self._orbax.save(place / STATE, args=ocp.args.PyTreeSave(contents.tree))
        except Exception as error:
            self._give_up(name, error)
            return
        self._written_before += 1
        rest = (name, contents.note, contents.arrays, keep, f"checkpoint {self._written_before}")
        self._thread = threading.Thread(target=self._finish, args=rest, name="checkpoint")
        self._thread.start()

    def wait(self) -> bool:
        """Wait for the checkpoint that is being written; return whether the last one succeeded."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._good

    def _make_room(self, name: str) -> tuple[bool, int]:
        """Make the checkpoint's folder; return whether the checkpoint exists already, and an error number or 0."""
        if (self._folder / name).exists():
            return True, 0
        try:
            for path in self._folder.glob(f"{PARTIAL}*"):  # arrays of one that failed may be written late
                shutil.rmtree(path, ignore_errors=True)
            (self._folder / f"{PARTIAL}{name}").mkdir(parents=True)
        except OSError as error:
            return False, error.errno or errno.EIO
        return False, 0

    def _finish(self, name: str, note: Note, arrays: Arrays, keep: Collection[str], place: str) -> None:
        """Wait for the arrays. The leader completes the checkpoint, and the others wait until it has its name."""
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
        partial = self._folder / f"{PARTIAL}{name}"
        (partial / NOTE).write_text(json.dumps(note), "utf-8")
        np.savez(partial / ARRAYS, allow_pickle=False, **arrays)
        write_atomically(partial / MANIFEST, json.dumps(_measure(partial), indent=1).encode())
        partial.rename(self._folder / name)
        sync(self._folder)
        prune(self._folder, {name, *keep})

    def _give_up(self, name: str, error: Exception) -> None:
        """Delete what was written, and go on without this checkpoint."""
        self._good, self._orbax = False, None
        self._link.close()
        if processes.is_leader():
            shutil.rmtree(self._folder / f"{PARTIAL}{name}", ignore_errors=True)
        self._failed(name, error)


def _orbax() -> Any:
    """Import orbax when it is needed, so that short runs wait for it only at their end."""
    import orbax.checkpoint as ocp

    # Errors reach us as exceptions, and become one sentence; orbax would also log pages of tracebacks of its threads.
    logging.getLogger("absl").addFilter(_not_from_orbax)
    logging.getLogger("asyncio").addFilter(_not_unretrieved)
    _ignore_late_writes()
    return ocp


def _not_from_orbax(record: logging.LogRecord) -> bool:
    return "orbax" not in Path(record.pathname).parts


def _not_unretrieved(record: logging.LogRecord) -> bool:
    """Drop asyncio's message: where one array cannot be written, the others cannot either."""
    return "exception was never retrieved" not in record.getMessage()


@cache
def _ignore_late_writes() -> None:
    """Silence the error of arrays whose writing ends after orbax has given up and closed its event loop."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    sys.unraisablehook = hook


@contextmanager
def _plain(folder: Path) -> Iterator[Path]:
    """Yield a path of the folder without [ and \\, which orbax would read as patterns.

    With such a path it would silently write a checkpoint without its table of contents.
    """
    if not {"[", "\\"} & set(str(folder.absolute())):
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory() as scratch:
        link = Path(scratch) / "checkpoint"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield link


def names(folder: Path) -> list[str]:
    """The names of the complete checkpoints, the oldest first."""
    return sorted(path.name for path in folder.glob(f"{COMPLETE}*") if path.is_dir())


def name_of(steps_done: int) -> str:
    """A checkpoint's name, by the steps of all stages and groups of seeds so far: names sort by time."""
    return f"{COMPLETE}{steps_done:010d}"


def prune(folder: Path, keep: Collection[str]) -> None:
    """Delete checkpoints that are not in `keep`; if killed meanwhile, no partial checkpoint has a valid name."""
    for name in names(folder):
        if name not in keep:
            (folder / name).rename(folder / f"{DELETING}{name}")
    for path in folder.glob(f"{DELETING}*"):
        shutil.rmtree(path, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder to damaged-…, and return its new path."""
    for number in range(1, 10_000):
        target = path.with_name(f"{DAMAGED}{path.name}" + (f"-{number}" if number > 1 else ""))
        if not target.exists():
            return path.rename(target)
    raise ConfigError(f"{path} is damaged, and there are 10,000 damaged ones beside it already; delete some")


def damage(path: Path) -> str:
    """What is wrong with a checkpoint, in words; "" if nothing is."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        for name, (size, crc32c) in manifest.items():
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != size:
                return f"{name} has {file.stat().st_size:,} bytes instead of {size:,}"
            if _crc32c(file) != crc32c:
                return f"{name} has another checksum"
        if NOTE not in manifest or ARRAYS not in manifest:
            return f"{MANIFEST} is incomplete"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, TypeError, AttributeError):
        return f"{MANIFEST} is not a list of files"
    return ""


def read_note(path: Path) -> Note:
    """Read a checkpoint's note."""
    note: Note = json.loads((path / NOTE).read_text("utf-8"))
    return note


def read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """Read a checkpoint's arrays other than the state."""
    with np.load(path / ARRAYS, allow_pickle=False) as file:
        return dict(file)


def read_tree(path: Path, like: PyTree) -> PyTree:
    """Read the state; `like` has its structure, shapes and types, and its shardings if there are several devices.

    The devices from which it was saved do not matter.
    """
    ocp = _orbax()

    def restore_args(leaf: Any) -> Any:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None:
            return ocp.RestoreArgs(restore_type=np.ndarray)
        return ocp.ArrayRestoreArgs(sharding=sharding)  # each process reads only its own shards

    args = jax.tree.map(restore_args, like)
    try:
        with _plain(path) as place, ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as orbax:
            state = orbax.restore(place / STATE, args=ocp.args.PyTreeRestore(like, restore_args=args))
        fits = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), state, like)
    except (ValueError, KeyError, TypeError):  # another structure; the files themselves were checked before
        fits = False
    if not all(jax.tree.leaves(fits)):
        raise MismatchError(f"{path.name} does not fit this version's networks and optimizers")
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf), state)


def _measure(folder: Path) -> dict[str, tuple[int, str]]:
    """Sync every file to the disk; return its size and checksum."""
    manifest = {}
    for path in sorted(folder.rglob("*")):
        sync(path)
        if path.is_file():
            manifest[path.relative_to(folder).as_posix()] = (path.stat().st_size, _crc32c(path))
    return manifest


def _crc32c(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = google_crc32c.extend(value, block)
    return f"{value:08x}"
