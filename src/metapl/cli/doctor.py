"""`metapl doctor`: is everything here that a run needs, and does a step compute the same thing twice?

Looks, and changes nothing but a file that it makes and removes to see whether a folder can be written to.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.markup import escape
from rich.table import Table

import metapl
from metapl.data.reading import files
from metapl.data.sources.cifar import Cifar10, Cifar100
from metapl.schema import ConfigError
from metapl.system import runtime

NEEDED = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "scipy", "safetensors")
EXTRAS = {"optuna": "sweep"}  # package -> the extra that brings it
LITTLE_DISK, LITTLE_MEMORY = 2e9, 2e9  # bytes below which something is said
SMOKE_TIMEOUT_S = 180

State = Literal["fine", "note", "broken"]
_MARKS: Mapping[State, str] = {"fine": "[green]fine[/]", "note": "[yellow]note[/]", "broken": "[red]broken[/]"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    topic: str
    state: State
    text: str
    advice: str = ""  # what to do, in plain words


def examine(data_dir: Path | None = None) -> list[Finding]:
    """Look at everything; what cannot even be looked at is a finding, too."""
    looks: tuple[Callable[[], list[Finding]], ...] = (
        versions,
        machine,
        compilation_cache,
        lambda: data_files(data_dir),
        disk,
        environment,
        step,
    )
    return [finding for look in looks for finding in look()]


def versions() -> list[Finding]:
    """What is installed."""
    found = {name: _version(name) for name in NEEDED}
    lacking = [name for name, version in found.items() if version is None]
    text = f"Python {platform.python_version()}, metapl {metapl.__version__}, " + ", ".join(
        f"{name} {version or 'missing'}" for name, version in found.items()
    )
    if lacking:
        advice = f"pip install metapl again: {', '.join(lacking)} cannot be found"
        return [Finding("versions", "broken", text, advice)]
    if found["jax"] != found["jaxlib"]:
        advice = f"pip install jaxlib=={found['jax']}: jax and jaxlib must be of one version"
        return [Finding("versions", "broken", text, advice)]
    extras = [
        Finding("extras", "note", f"no {name}", f"metapl {extra} needs it: pip install 'metapl[{extra}]'")
        for name, extra in EXTRAS.items()
        if _version(name) is None
    ]
    return [Finding("versions", "fine", text), *extras]


def machine() -> list[Finding]:
    """Cores and memory."""
    total, free = memory()
    text = f"{runtime.cores()} cores"
    if total is None or free is None:
        return [Finding("machine", "fine", text)]
    text += f", {free / 1e9:.1f} of {total / 1e9:.1f} GB of memory free"
    if free < LITTLE_MEMORY:
        return [Finding("machine", "note", text, "little memory is free: take small networks and batches")]
    return [Finding("machine", "fine", text)]


def memory() -> tuple[int | None, int | None]:
    """All and free memory in bytes, no more than a container may have; None where the system does not say."""
    found = {}
    for line in _text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if rest.split()[:1] and rest.split()[0].isdigit():
            found[name] = int(rest.split()[0]) * 1024
    total, free = found.get("MemTotal"), found.get("MemAvailable")
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if total is not None and free is not None and limit.isdigit() and used.isdigit():
        return min(total, int(limit)), min(free, max(0, int(limit) - int(used)))
    return total, free


def compilation_cache() -> list[Finding]:
    """Where compiled programs are kept, and whether they can be."""
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    try:
        folder = Path(chosen) if chosen else runtime.cache_folder() / "xla"
    except ConfigError as error:
        return [Finding("compilation cache", "broken", "no folder", str(error))]
    size = _size(folder)
    text = f"{folder}, " + ("not there yet" if size is None else f"{size / 1e6:.0f} MB")
    if reason := _unwritable(folder):
        advice = "programs compile anew at each start; make the folder writable or set XDG_CACHE_HOME to another one"
        return [Finding("compilation cache", "note", f"{text}, cannot be written to ({reason})", advice)]
    return [Finding("compilation cache", "fine", f"{text}, can be written to")]


def data_files(data_dir: Path | None) -> list[Finding]:
    """Which sources' files are there; their content is not read (`metapl data check` does)."""
    try:
        folders = files.search_folders(data_dir, runtime.cache_folder())
    except ConfigError as error:
        return [Finding("data", "broken", "no folder", str(error))]
    there = {name: path for name, names in _file_names().items() if (path := files.find(folders, *names))}
    text = ", ".join(["two_moons and digits (need no files)", *(f"{name} ({path})" for name, path in there.items())])
    lacking = [name for name in _file_names() if name not in there]
    if not lacking:
        return [Finding("data", "fine", text)]
    advice = f"files of others belong into {folders[0]}, or into a folder that --data-dir names (docs/data.md)"
    return [Finding("data", "fine", f"{text}; not found: {', '.join(lacking)}", advice)]


def _file_names() -> dict[str, list[str]]:
    """Any of these tells that a source is there."""
    idx = [f"train-images-idx3-ubyte{suffix}" for suffix in ("", ".gz")]
    return {
        "cifar10": [name for layout in Cifar10.layouts for name in (layout.folder, layout.archive)],
        "cifar100": [name for layout in Cifar100.layouts for name in (layout.folder, layout.archive)],
        "svhn": ["train_32x32.mat", "svhn/train_32x32.mat"],
        "mnist": [f"mnist/{name}" for name in idx],
        "fashion_mnist": [f"fashion_mnist/{name}" for name in idx],
        "imagenet": ["imagenet"],
    }


def disk() -> list[Finding]:
    """Room for what a run writes, here."""
    try:
        here = Path.cwd()
        free = shutil.disk_usage(here).free
    except OSError as error:
        return [Finding("disk", "broken", f"this folder cannot be looked at ({error.strerror})", "go to another one")]
    text = f"{free / 1e9:.1f} GB free in {here}"
    if reason := _unwritable(here):
        advice = "runs are written below this folder: go to another one, or give --out"
        return [Finding("disk", "note", f"{text}, which cannot be written to ({reason})", advice)]
    if free < LITTLE_DISK:
        return [Finding("disk", "note", text, "checkpoints may not fit: make room, or give --out on another disk")]
    return [Finding("disk", "fine", text)]


def environment() -> list[Finding]:
    """Variables that change what JAX does, all of them the user's."""
    names = sorted(name for name in os.environ if name.startswith(("JAX_", "XLA_PYTHON", "CUDA_VISIBLE", "TPU_")))
    if not names:
        return []
    text = ", ".join(f"{name}={os.environ[name]}" for name in names)
    return [Finding("environment", "fine", f"set by you: {text}")]


def step() -> list[Finding]:
    """Let another process do one training step; it may crash."""
    command = [sys.executable, "-m", "metapl.cli.smoke"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [Finding("smoke step", "broken", f"no end after {SMOKE_TIMEOUT_S} s", "is the device busy, or hanging?")]
    if done.returncode:
        reason = why(done.stderr) or f"exit code {done.returncode}"
        return [Finding("smoke step", "broken", reason, _crash_advice(reason))]
    return judge(json.loads(done.stdout.splitlines()[-1]), os.environ.get("XLA_FLAGS", ""))


def judge(found: Mapping[str, Any], own_flags: str) -> list[Finding]:
    """What the smoke step's report means."""
    flags = [f"{flag} ({'you' if flag in own_flags.split() else 'metapl'})" for flag in found["xla_flags"].split()]
    devices = [Finding("devices", "fine", ", ".join(found["devices"]))]
    if all(name.startswith("cpu") for name in found["devices"]) and Path("/dev/nvidia0").exists():
        advice = "there is a GPU that JAX does not use: pip install 'metapl[cuda]'"
        devices = [Finding("devices", "note", ", ".join(found["devices"]), advice)]
    text = f"MPL, compiled and run twice in {found['seconds']} s"
    wrong = {"finite": "not all numbers are finite", "same_twice": "the same step gave other bits the second time"}
    reasons = [words for name, words in wrong.items() if not found[name]]
    result = Finding("smoke step", "fine", f"{text}: finite, and the same bits both times")
    if reasons:
        advice = "unset XLA_FLAGS and JAX_*; if that does not help, the device or its driver is at fault"
        result = Finding("smoke step", "broken", f"{text}: {' and '.join(reasons)}", advice)
    return [*devices, Finding("XLA flags", "fine", ", ".join(flags) or "none"), result]


def why(errors: str) -> str:
    """The one line of a crash that says why: XLA's fatal one, or else the last."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("F") and "]" in line]
    return fatal[-1].split("] ", 1)[-1] if fatal else next(iter(lines[-1:]), "")


def _crash_advice(reason: str) -> str:
    if "XLA_FLAGS" in reason or "xla_" in reason:
        return "XLA cannot read its flags: correct or unset XLA_FLAGS"
    if "backend" in reason:
        return "correct or unset JAX_PLATFORMS, and look at the device's driver"
    return "python -m metapl.cli.smoke shows all of it"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _size(folder: Path) -> int | None:
    """Bytes in a folder's files, those below it included; None if there is no such folder."""
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
    """Why a file cannot be made in the folder, or in the nearest one above it that is there; empty if it can."""
    try:
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return str(error.strerror)


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""


def table(findings: Sequence[Finding]) -> Table:
    """For a terminal; advice stands under what it is about."""
    found = Table("", "", "", show_header=False)
    for finding in findings:
        text = escape(finding.text) + (f"\n[italic]→ {escape(finding.advice)}[/]" if finding.advice else "")
        found.add_row(finding.topic, _MARKS[finding.state], text)
    return found


def as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For programs."""
    return [finding._asdict() for finding in findings]


def is_broken(findings: Sequence[Finding]) -> bool:
    """Is there anything that a run cannot live with?"""
    return any(finding.state == "broken" for finding in findings)
