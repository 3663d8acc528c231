"""The checks of `metapl doctor`: is everything here that a run needs, and does a step compute the same numbers twice?

They change nothing; to test whether a folder can be written to, they make a file in it and remove it.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import metapl
from metapl.data.reading import files
from metapl.data.sources.cifar import Cifar10, Cifar100
from metapl.schema import ConfigError
from metapl.system import runtime
from metapl.system.memory import memory

NEEDED = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "scipy", "safetensors")
EXTRAS = {"optuna": "sweep"}  # package -> the extra that brings it
LITTLE_DISK, LITTLE_MEMORY = 2e9, 2e9  # free bytes below which a note is given
SMOKE_TIMEOUT_S = 180

State = Literal["fine", "note", "broken"]


class MachineFinding(NamedTuple):
    """The result of one check."""

    topic: str
    state: State
    text: str
    advice: str = ""  # what to do, in plain words


def examine(data_dir: Path | None = None) -> list[MachineFinding]:
    """Return what all checks find; a check that fails is a finding, too."""
    checks: tuple[Callable[[], list[MachineFinding]], ...] = (
        versions,
        machine,
        compilation_cache,
        lambda: data_files(data_dir),
        disk,
        environment,
        step,
    )
    return [finding for check in checks for finding in check()]


def versions() -> list[MachineFinding]:
    """Check which packages are installed."""
    installed = {name: _version(name) for name in NEEDED}
    missing = [name for name, version in installed.items() if version is None]
    text = f"Python {platform.python_version()}, metapl {metapl.__version__}, " + ", ".join(
        f"{name} {version or 'missing'}" for name, version in installed.items()
    )
    if missing:
        advice = f"pip install metapl again: {', '.join(missing)} cannot be found"
        return [MachineFinding("versions", "broken", text, advice)]
    extras = [
        MachineFinding("extras", "note", f"no {name}", f"metapl {extra} needs it: pip install 'metapl[{extra}]'")
        for name, extra in EXTRAS.items()
        if _version(name) is None
    ]
    return [MachineFinding("versions", "fine", text), *extras]


def machine() -> list[MachineFinding]:
    """Check cores and memory."""
    total, free = memory()
    text = f"{runtime.cores()} cores"
    if total is None or free is None:
        return [MachineFinding("machine", "fine", text)]
    text += f", {free / 1e9:.1f} of {total / 1e9:.1f} GB of memory free"
    if free < LITTLE_MEMORY:
        return [MachineFinding("machine", "note", text, "little memory is free: use small networks and batches")]
    return [MachineFinding("machine", "fine", text)]


def compilation_cache() -> list[MachineFinding]:
    """Check where compiled programs are kept, and whether the folder can be written to."""
    user_folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    try:
        folder = Path(user_folder) if user_folder else runtime.cache_folder() / "xla"
    except ConfigError as error:
        return [MachineFinding("compilation cache", "broken", "no folder", str(error))]
    size = _size(folder)
    text = f"{folder}, " + ("not there yet" if size is None else f"{size / 1e6:.0f} MB")
    if reason := _unwritable(folder):
        advice = "programs compile again at each start: make the folder writable, or set XDG_CACHE_HOME to another one"
        return [MachineFinding("compilation cache", "note", f"{text}, cannot be written to ({reason})", advice)]
    return [MachineFinding("compilation cache", "fine", f"{text}, can be written to")]


def data_files(data_dir: Path | None) -> list[MachineFinding]:
    """Check which sources have files here; their content is not read (`metapl data check` reads it)."""
    try:
        folders = files.search_folders(data_dir, runtime.cache_folder())
    except ConfigError as error:
        return [MachineFinding("data", "broken", "no folder", str(error))]
    paths = {name: path for name, names in _file_names().items() if (path := files.find(folders, *names))}
    text = ", ".join(["two_moons and digits (need no files)", *(f"{name} ({path})" for name, path in paths.items())])
    missing = [name for name in _file_names() if name not in paths]
    if not missing:
        return [MachineFinding("data", "fine", text)]
    advice = (
        f"put the files of the others into {folders[0]}, or into a folder and name it with --data-dir (docs/data.md)"
    )
    return [MachineFinding("data", "fine", f"{text}; not found: {', '.join(missing)}", advice)]


def _file_names() -> dict[str, list[str]]:
    """Return file names by source: if one of them exists, the source is there."""
    idx = [f"train-images-idx3-ubyte{suffix}" for suffix in ("", ".gz")]
    return {
        "cifar10": [name for layout in Cifar10.layouts for name in (layout.folder, layout.archive)],
        "cifar100": [name for layout in Cifar100.layouts for name in (layout.folder, layout.archive)],
        "svhn": ["train_32x32.mat", "svhn/train_32x32.mat"],
        "mnist": [f"mnist/{name}" for name in idx],
        "fashion_mnist": [f"fashion_mnist/{name}" for name in idx],
        "imagenet": ["imagenet"],
    }


def disk() -> list[MachineFinding]:
    """Check the free space in this folder, where runs are written."""
    try:
        here = Path.cwd()
        free = shutil.disk_usage(here).free
    except OSError as error:
        return [
            MachineFinding(
                "disk", "broken", f"this folder cannot be read ({error.strerror})", "change to another folder"
            )
        ]
    text = f"{free / 1e9:.1f} GB free in {here}"
    if reason := _unwritable(here):
        advice = "runs are written below this folder: change to another folder, or give --out"
        return [MachineFinding("disk", "note", f"{text}, which cannot be written to ({reason})", advice)]
    if free < LITTLE_DISK:
        return [
            MachineFinding("disk", "note", text, "checkpoints may not fit: make room, or give --out on another disk")
        ]
    return [MachineFinding("disk", "fine", text)]


def environment() -> list[MachineFinding]:
    """List the user's environment variables that change what JAX does."""
    names = sorted(name for name in os.environ if name.startswith(("JAX_", "XLA_PYTHON", "CUDA_VISIBLE", "TPU_")))
    if not names:
        return []
    text = ", ".join(f"{name}={os.environ[name]}" for name in names)
    return [MachineFinding("environment", "fine", f"set by you: {text}")]


def step() -> list[MachineFinding]:
    """Do one training step in another process, because it may crash."""
    command = [sys.executable, "-m", "metapl.cli.smoke"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [
            MachineFinding(
                "smoke step",
                "broken",
                f"not finished after {SMOKE_TIMEOUT_S} s",
                "check whether the device is busy or hangs",
            )
        ]
    if done.returncode:
        reason = why(done.stderr) or f"exit code {done.returncode}"
        return [MachineFinding("smoke step", "broken", reason, _crash_advice(reason))]
    return judge(json.loads(done.stdout.splitlines()[-1]), os.environ.get("XLA_FLAGS", ""))


def judge(report: Mapping[str, Any], user_flags: str) -> list[MachineFinding]:
    """Return what the smoke step's report means."""
    devices = [MachineFinding("devices", "fine", ", ".join(report["devices"]))]
    if all(name.startswith("cpu") for name in report["devices"]) and Path("/dev/nvidia0").exists():
        advice = "JAX does not use the GPU of this machine: pip install 'metapl[cuda]'"
        devices = [MachineFinding("devices", "note", ", ".join(report["devices"]), advice)]
    text = f"MPL, compiled and run twice in {report['seconds']} s"
    wrong = {"finite": "not all numbers are finite", "same_twice": "the same step gave different bits the second time"}
    reasons = [words for name, words in wrong.items() if not report[name]]
    result = MachineFinding("smoke step", "fine", f"{text}: finite, and the same bits both times")
    if reasons:
        advice = "unset XLA_FLAGS and JAX_*; if that does not help, the device or its driver is at fault"
        result = MachineFinding("smoke step", "broken", f"{text}: {' and '.join(reasons)}", advice)
    memory = _memory_finding(report["memory_not_kept"])
    return [*devices, _flags_finding(report, user_flags), memory, _convolutions_finding(report), result]


def _memory_finding(not_kept: str) -> MachineFinding:
    """Return whether freed memory stays in the process, which makes steps on CPUs faster."""
    if not not_kept:
        return MachineFinding("freed memory", "fine", "kept for the next step; METAPL_KEEP_MEMORY=0 switches it off")
    return MachineFinding("freed memory", "fine", f"returned to the system after each step: {not_kept}")


def _flags_finding(report: Mapping[str, Any], user_flags: str) -> MachineFinding:
    """Return which flags XLA got from whom, and which metapl left out because XLA does not know them."""
    flags = [f"{flag} ({'you' if flag in user_flags.split() else 'metapl'})" for flag in report["xla_flags"].split()]
    text = ", ".join(flags) or "none"
    if not report["left_out_xla_flags"]:
        return MachineFinding("XLA flags", "fine", text)
    text += f"; left out: {', '.join(report['left_out_xla_flags'])}"
    advice = f"jaxlib {_version('jaxlib')} does not know the flags left out: all works, but steps on CPUs may be slower"
    return MachineFinding("XLA flags", "note", text, advice)


def _convolutions_finding(report: Mapping[str, Any]) -> MachineFinding:
    """Return what computes convolutions on CPUs, and what would be faster."""
    if report["onednn"]:
        return MachineFinding("convolutions", "fine", f"by oneDNN on CPUs (metapl-onednn {_version('metapl-onednn')})")
    if advice := report["onednn_hint"]:
        return MachineFinding("convolutions", "note", "by XLA", f"{advice}; docs/speed.md has the times")
    return MachineFinding("convolutions", "fine", "by XLA")


def why(errors: str) -> str:
    """Return the line of a crash that says why: XLA's fatal one, or else the last."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("F") and "]" in line]
    return fatal[-1].split("] ", 1)[-1] if fatal else next(iter(lines[-1:]), "")


def _crash_advice(reason: str) -> str:
    if "jaxlib" in reason and "version" in reason:  # each JAX works with a range of jaxlibs, and checks it
        return "pip install --upgrade jax jaxlib: these two versions do not work together"
    if "XLA_FLAGS" in reason or "xla_" in reason:
        return "XLA cannot read its flags: correct or unset XLA_FLAGS"
    if "backend" in reason:
        return "correct or unset JAX_PLATFORMS, and check the device's driver"
    return "python -m metapl.cli.smoke shows the whole error"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _size(folder: Path) -> int | None:
    """Return the bytes of all files in and below a folder; None if there is no such folder."""
    if not folder.is_dir():
        return None
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def _unwritable(folder: Path) -> str:
    """Return why no file can be made in the folder, or in its nearest existing parent; empty if one can."""
    try:
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return str(error.strerror)
