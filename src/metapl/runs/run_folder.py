"""A run's folder: the files that are written before the first step, and that a resumed run reads.

`config.toml` (all settings), `split.json` (which examples are labelled, with checksums) and `environment.json`
(software, machine, seeds, and the checksums of what must not change during a run). config.toml is written last: a
folder that has it holds a run. docs/runs.md lists all files.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import metapl
from metapl import config as configs
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.data.splits.manifest import check_manifest
from metapl.schema import ConfigError
from metapl.start_from.find import file_of, is_path
from metapl.system import folders, lock, runtime
from metapl.system.disk import UNFINISHED, explaining_disk_errors, write_atomically

CONFIG, SPLIT, ENVIRONMENT, RESULT = "config.toml", "split.json", "environment.json", "result.json"
# All that a start which was killed, or found the disk full, can leave; config.toml is written last.
LEFT_BY_A_START = (
    lock.FILE,
    *(name + end for name in (ENVIRONMENT, SPLIT) for end in ("", UNFINISHED)),
    CONFIG + UNFINISHED,
)
# Entries of environment.json that must not change during a run.
FIXED = ("config_sha256", "init_from_sha256", "seeds", "seeds_at_once", "data_folders", "folder")


@dataclass(frozen=True)
class RunSettings:
    """What is fixed when a run begins."""

    config: Config
    seeds: tuple[int, ...]
    seeds_at_once: int
    folders: Folders  # where data files are looked for


class OtherVersionError(ConfigError):
    """A run that another version of metapl began, and that this version cannot go on with."""

    def __init__(self, run: Path, reason: str) -> None:
        environment, now = _environment(run), metapl.__version__
        began_with = str(environment.get("metapl"))
        again = f"or start again with metapl train {run / CONFIG}"
        if began_with == now:
            commit = environment.get("commit") or "unknown"
            super().__init__(
                f"{run} was started by another build of metapl {now} (commit {commit}), and this one cannot continue "
                f"it ({reason}): finish it with that build, {again}"
            )
        else:
            super().__init__(
                f"{run} was started by metapl {began_with}; this is {now}, which cannot continue it ({reason}): finish "
                f"it with that version (pip install metapl=={began_with}), {again}"
            )


def claim(folder: Path) -> Path:
    """Make the folder of a new run; raise ConfigError if it holds a run."""
    if (folder / RESULT).exists() and (folder / CONFIG).exists():
        raise ConfigError(f"--out {folder} holds a finished run, which is never overwritten; choose another folder")
    if (folder / CONFIG).exists():
        raise ConfigError(
            f"--out {folder} holds an unfinished run: metapl resume {folder} continues it; or choose another folder"
        )
    return folders.claim(folder, LEFT_BY_A_START)


def write(out: Path, settings: RunSettings, manifest: Mapping[str, Any] | None) -> None:
    """Write the files of a new run; the caller holds the run's lock."""
    text = configs.dump(settings.config)
    environment = {
        "metapl": metapl.__version__,
        "commit": commit(),
        "command": sys.argv,
        "folder": os.getcwd(),
        "data_folders": [str(folder.absolute()) for folder in settings.folders],
        "seeds": list(settings.seeds),
        "seeds_at_once": settings.seeds_at_once,
        "config_sha256": _sha256(text.encode()),
        "init_from_sha256": _sha256_of_weights(settings.config.init_from),
        **runtime.describe(),
    }
    with explaining_disk_errors(out, "the same command starts the run"):
        write_atomically(out / ENVIRONMENT, _json(environment | {"checksum": _checksum(environment)}))
        if manifest is not None:
            write_atomically(out / SPLIT, _json(manifest))
        write_atomically(out / CONFIG, text.encode())


def read(run: Path) -> tuple[RunSettings, list[str]]:
    """Return the run's settings, and sentences that say what has changed on this machine since it began.

    Settings that were edited are refused: a resumed run must be the same run.
    """
    environment = _environment(run)
    text = (run / CONFIG).read_bytes()
    if _sha256(text) != environment["config_sha256"]:
        raise ConfigError(
            f"{run / CONFIG} was edited after the run started, and a resumed run keeps its settings: undo the change, "
            f"or start another run with metapl train {run / CONFIG}"
        )
    try:
        config = configs.parse(text.decode(), str(run / CONFIG))
    except ConfigError as error:  # the file is as it was written, so another version wrote it
        raise OtherVersionError(run, str(error)) from None
    if environment["init_from_sha256"] != _sha256_of_weights(config.init_from):
        back = "put it back" if is_path(config.init_from) else "give the same file as before, or start another run"
        raise ConfigError(f"init_from: {config.init_from} is not the file that the run started with; {back}")
    places = tuple(Path(folder) for folder in environment["data_folders"])
    settings = RunSettings(config, tuple(environment["seeds"]), environment["seeds_at_once"], places)
    return settings, _differences(environment)


def fingerprint(run: Path) -> str:
    """A hash that tells a run from all others, wherever its folder is."""
    return _sha256((run / ENVIRONMENT).read_bytes())


@contextmanager
def where_it_began(run: Path) -> Iterator[None]:
    """Work in the folder where the run began, if it still exists: paths in its settings may be relative to it."""
    with folders.where_run_began(_environment(run)):
        yield


def check_data(run: Path, dataset: Dataset) -> None:
    """Raise ConfigError if the data are not those that the run began with."""
    if dataset.manifest is None:  # drawn from the seed
        return
    try:
        stored = dict(json.loads((run / SPLIT).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise ConfigError(
            f"{run / SPLIT} is missing or damaged, so the data cannot be compared with those that the run started with"
        ) from None
    check_manifest(stored, json.loads(json.dumps(dataset.manifest)))


def commit() -> str | None:
    """The commit of the code, if it runs from its own git checkout; a + means that files were changed since."""
    source = Path(__file__).parents[1]
    try:
        top, head = _git(source, "rev-parse", "--show-toplevel", "HEAD").split()
        if Path(top) != source.parents[1]:
            return None  # installed inside another repository
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
        environment = json.loads((run / ENVIRONMENT).read_text("utf-8"))
        if environment["checksum"] != _checksum(environment):
            raise ValueError
        return dict(environment) | {"versions": dict(environment["versions"])}
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigError(f"{run / ENVIRONMENT} is missing or damaged; without it the run cannot be resumed") from None


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
    return [f"the run's last bits may differ from those of a run without interruption: {'; '.join(changed)}"]


def _checksum(environment: Mapping[str, Any]) -> str:
    return _sha256(json.dumps([environment[name] for name in FIXED]).encode())


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sha256_of_weights(name: str) -> str | None:
    """SHA-256 of the weights that `init_from` names, or None if there are none, or the file cannot be read."""
    if not name:
        return None
    try:
        with file_of(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
