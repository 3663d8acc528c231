"""`metapl train`."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge, Le

from metapl import config as configs
from metapl.cli.data_folders import folders
from metapl.cli.flags import asks_for_help, parse
from metapl.cli.verbs import INDENT, print_help
from metapl.models import onednn
from metapl.runs import run_folder
from metapl.runs.start import start_run
from metapl.schema import ConfigError, to_dict, validate
from metapl.start_from import find
from metapl.system import processes, runtime
from metapl.system.folders import next_free
from metapl.system.terminal import Terminal, say
from metapl.train.groups import AtOnce


@dataclass(frozen=True)
class TrainFlags:
    """A run's settings, its seeds, and where it goes."""

    config: Annotated[configs.Config, tyro.conf.arg(name="")]
    seeds: Annotated[int, Ge(1), Le(10_000)] = 1
    """How many seeds to train: seed, seed + 1, and so on."""
    seeds_at_once: AtOnce = "auto"
    """How many seeds train at once; auto: all, if the networks are small, else one (docs/evaluation.md)."""
    data_dir: Path | None = None
    """Where data files are, if the source has any. Default: the user's cache."""
    out: Path | None = None
    """Folder of the run: new or empty. Default: runs/NAME, or the next free name after it."""
    cluster: Annotated[runtime.Cluster, tyro.conf.arg(name="")] = runtime.Cluster()

    def check(self) -> None:
        """Check the number of seeds at once."""
        if self.seeds_at_once != "auto" and self.seeds_at_once < 1:
            raise ValueError(f"seeds_at_once takes auto or a number of at least 1, got {self.seeds_at_once}")


def train(args: Sequence[str]) -> None:
    """Train one method from a preset or a TOML file.

    The first argument is the name of a preset or the path of a TOML file. Every setting in it is also a flag, and a
    flag wins. Writes config.toml (all settings, as used), metrics.jsonl, checkpoints, result.json, evaluations.csv,
    confusion.npz and weights.safetensors; docs/runs.md explains them.

    Ctrl-C (or SIGTERM) saves and stops; a second Ctrl-C stops at once. metapl resume RUN continues, and ends with the
    same bits. A folder that holds a run is never overwritten.

    Examples:
      metapl train two_moons_mpl
      metapl train two_moons_mpl --help     lists the settings, with the preset's values
      metapl train two_moons_mpl_uda --stages.0.method.consistency.temperature 0.7 --seeds 20
    """
    if asks_for_help(args) and args[0].startswith("-"):
        print_help("metapl train PRESET_OR_TOML [--out RUN] [--SETTING VALUE …]", train, _presets())
        return
    if not args or args[0].startswith("-"):
        raise ConfigError("train needs a preset or a TOML file first; metapl train --help lists the presets")
    flags = parse(TrainFlags, f"metapl train {args[0]}", train, args[1:], TrainFlags(configs.load(args[0])))
    validate(flags)
    _train(flags, Path("runs") / Path(args[0]).stem)


def _train(flags: TrainFlags, usual: Path) -> None:
    """Connect the processes, agree on a folder, and train."""
    runtime.connect(flags.cluster)
    with processes.together():
        given = {"seeds": flags.seeds, "seeds_at_once": flags.seeds_at_once, "out": str(flags.out)}
        find.check(flags.config.init_from)
        processes.check_same_everywhere(given | {"processes": processes.count()} | to_dict(flags.config))
        out = Path(processes.leader_decides(lambda: str(run_folder.claim(flags.out or next_free(usual)))))
        runtime.start()
        terminal = Terminal(quiet=not processes.is_leader())
        if any(model.convolutions for model in flags.config.stage_models) and (hint := onednn.hint()):
            say(terminal, hint)
        start_run(flags.config, flags.seeds, flags.seeds_at_once, folders(flags.data_dir), out, terminal)


def _presets() -> str:
    """Return the presets, in groups by the first word of their names."""
    presets = configs.presets()
    width = max(map(len, presets)) + 2
    groups = itertools.groupby(presets.items(), lambda preset: preset[0].split("_")[0])
    lists = ["\n".join(f"{'':{INDENT}}{name:<{width}}{line}" for name, line in group) for _, group in groups]
    return "\n\n".join(["Presets, in groups by data or network; docs/presets.md adds the paper's numbers:", *lists])
