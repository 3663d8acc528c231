"""A run's folder: what is in it before the first step, and what another session needs to go on with it.

`config.toml` (all settings), `split.json` (who is labelled, with checksums) and `environment.json` (software, machine,
seeds, and the checksums of what must not change under a run). config.toml is written last: a folder that has it is a
run's. docs/runs.md lists all files.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metapl import config as configs
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.data.splits.manifest import check_manifest
from metapl.schema import ConfigError
from metapl.system import folders, runtime
from metapl.system.disk import explaining_disk_errors, write_atomically

CONFIG, SPLIT, ENVIRONMENT, RESULT = "config.toml", "split.json", "environment.json", "result.json"
# With any of these changed it would be another run.
FIXED = ("config_sha256", "init_from_sha256", "seeds", "seeds_at_once", "data_folders", "folder")


@dataclass(frozen=True)
class Begun:
    """What was fixed when a run began."""

    config: Config
    seeds: tuple[int, ...]
    seeds_at_once: int
    folders: Folders  # where data files are looked for


def claim(folder: Path) -> Path:
    """Make the folder of a new run; one that holds a run is left alone."""
    if (folder / RESULT).exists() and (folder / CONFIG).exists():
        raise ConfigError(f"--out {folder} holds a finished run, which is never overwritten; choose another folder")
    if (folder / CONFIG).exists():
        raise ConfigError(
            f"--out {folder} holds an unfinished run: metapl resume {folder} goes on with it; or choose another folder"
        )
    return folders.claim(folder)


def write(out: Path, begun: Begun, manifest: Mapping[str, Any] | None) -> None:
    """Note all that the run is to be; called with the run's lock held."""
    text = configs.dump(begun.config)
    environment = {
        "metapl": runtime.describe()["versions"]["metapl"],
        "commit": commit(),
        "command": sys.argv,
        "folder": os.getcwd(),
        "data_folders": [str(folder.absolute()) for folder in begun.folders],
        "seeds": list(begun.seeds),
        "seeds_at_once": begun.seeds_at_once,
        "config_sha256": _sha256(text.encode()),
        "init_from_sha256": _sha256_of_file(begun.config.init_from),
        **runtime.describe(),
    }
    with explaining_disk_errors(out):
        write_atomically(out / ENVIRONMENT, _json(environment | {"checksum": _checksum(environment)}))
        if manifest is not None:
            write_atomically(out / SPLIT, _json(manifest))
        write_atomically(out / CONFIG, text.encode())


def read(run: Path) -> tuple[Begun, list[str]]:
    """What the run is to be, and what differs from when it began: sentences for the user.

    Settings that were edited are refused: a resumed run is the same run.
    """
    environment = _environment(run)
    text = (run / CONFIG).read_bytes()
    if _sha256(text) != environment["config_sha256"]:
        raise ConfigError(
            f"{run / CONFIG} was edited after the run began, and a resumed run is the same run: put it back, or begin "
            f"another one with metapl train {run / CONFIG}"
        )
    config = configs.parse(text.decode(), str(run / CONFIG))
    if environment["init_from_sha256"] != _sha256_of_file(config.init_from):
        raise ConfigError(f"init_from: {config.init_from} is not the file that the run began with; put it back")
    places = tuple(Path(folder) for folder in environment["data_folders"])
    begun = Begun(config, tuple(environment["seeds"]), environment["seeds_at_once"], places)
    return begun, _differences(environment)


def fingerprint(run: Path) -> str:
    """Tell a run from all others, wherever this machine has its folder."""
    return _sha256((run / ENVIRONMENT).read_bytes())


@contextmanager
def where_it_began(run: Path) -> Iterator[None]:
    """Work where the run was begun, if that folder is still there: paths in its settings may be relative to it."""
    folder = Path(_environment(run)["folder"])
    with chdir(folder) if folder.is_dir() else nullcontext():
        yield


def check_data(run: Path, dataset: Dataset) -> None:
    """Refuse data that are not those that the run began with."""
    if dataset.manifest is None:  # drawn from the seed
        return
    try:
        stored = dict(json.loads((run / SPLIT).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise ConfigError(
            f"{run / SPLIT} is missing or damaged: whether the data are the same cannot be told"
        ) from None
    check_manifest(stored, json.loads(json.dumps(dataset.manifest)))


def commit() -> str | None:
    """The commit of the code, where it runs from a checkout of its own; a + says that files were changed since."""
    source = Path(__file__).parents[1]
    try:
        top, head = _git(source, "rev-parse", "--show-toplevel", "HEAD").split()
        if Path(top) != source.parents[1]:
            return None  # someone else's repository, with us installed in it
        return head + ("+" if _git(source, "status", "--porcelain") else "")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _environment(run: Path) -> dict[str, Any]:
    if not (run / CONFIG).is_file():
        raise ConfigError(f"{run} is not the folder of a run: it has no {CONFIG}")
    try:
        found = json.loads((run / ENVIRONMENT).read_text("utf-8"))
        if found["checksum"] != _checksum(found):
            raise ValueError
        return dict(found) | {"versions": dict(found["versions"])}
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigError(f"{run / ENVIRONMENT} is missing or damaged; without it the run cannot go on") from None


def _differences(then: Mapping[str, Any]) -> list[str]:
    now = json.loads(json.dumps(runtime.describe()))
    names = ("platform", "device_kind", "devices", "cores", "xla_flags", "prng")
    changed = [f"{name} was {then.get(name)!r}, is {now[name]!r}" for name in names if then.get(name) != now[name]]
    versions: Mapping[str, Any] = then["versions"]
    changed += [
        f"{name} was {versions.get(name)}, is {version}"
        for name, version in now["versions"].items()
        if versions.get(name) != version
    ]
    if not changed:
        return []
    return [f"the run goes on, but its last bits may differ from those of a run in one go: {'; '.join(changed)}"]


def _checksum(environment: Mapping[str, Any]) -> str:
    return _sha256(json.dumps([environment[name] for name in FIXED]).encode())


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sha256_of_file(name: str) -> str | None:
    """None where there is none."""
    try:
        with open(name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
