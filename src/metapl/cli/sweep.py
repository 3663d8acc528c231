"""The command line's side: from words and flags to a sweep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge
from rich.console import Console

from metapl.cli.data import folders
from metapl.cli.flags import parse
from metapl.schema import ConfigError, validate
from metapl.sweep import plan as plans
from metapl.system.folders import claim, next_free
from metapl.system.terminal import say

DATABASE = "sweep.db"


def sweep(args: Sequence[str], verb: Callable[..., None]) -> None:
    """Read the presets before the first flag, then the flags; do the trials; print the table."""
    first_flag = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    words, rest = args[:first_flag], args[first_flag:]

    @dataclass(frozen=True)
    class Flags:
        budget: Annotated[plans.Budget, tyro.conf.arg(name="")] = plans.Budget()
        workers: Annotated[int, Ge(1)] = 1
        """Processes that train at once, here; more machines join by the same command and a common --storage."""
        space: Path | None = None
        """TOML file with the ranges to search. Default: ours, which follow the paper's tables (docs/sweeps.md)."""
        storage: str = ""
        """Database of the trials: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME. Default: a file in --out."""
        data_dir: Path | None = None
        """Where data files are, if the source has any. Default: the per-user cache."""
        out: Path | None = None
        """Folder of the sweep: new or empty, or that of this sweep, which then goes on. Default: runs/sweep."""

    flags = parse(Flags, "metapl sweep PRESET_OR_TOML …", verb, rest, Flags())
    if not words:
        raise ConfigError("sweep needs presets or TOML files first; metapl train --help lists the presets")
    validate(flags)
    plan = plans.make(words, flags.budget, flags.space, folders(flags.data_dir))
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ConfigError("sweeps need optuna: pip install 'metapl[sweep]'") from None
    from metapl.sweep import run, store

    validation = plans.validation_size(plan)
    if flags.storage:
        store.connect(flags.storage)  # before a folder is made for nothing
    out = _folder(flags.out)
    url = flags.storage or f"sqlite:///{out / DATABASE}"
    console = Console()
    report = run.run(plan, out.name, url, flags.workers, out, console, validation)
    say(console, f"wrote {report}")


def _folder(out: Path | None) -> Path:
    """A new folder, or that of a sweep, to go on with."""
    if out is None:
        return claim(next_free(Path("runs/sweep")))
    if (out / DATABASE).is_file() or (out / "workers").is_dir():
        return out
    return claim(out)
