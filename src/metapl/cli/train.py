"""The verbs that make runs and look at them again: each reads its flags and calls one function."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Ge
from rich.console import Console

from metapl.cli.flags import dedent, parse
from metapl.schema import ConfigError, to_dict, validate
from metapl.system.folders import claim, next_free
from metapl.system.terminal import say


def train(args: Sequence[str]) -> None:
    """Train one method from a preset or a TOML file.

    The first argument is the name of a preset or the path of a TOML file; every setting in it is a flag, too, and
    a flag wins. Writes config.toml (all settings, as they were used), metrics.jsonl, checkpoints, result.json,
    evaluations.csv, confusion.npz and weights.safetensors; docs/runs.md tells what they hold.

    Ctrl-C (or SIGTERM) saves and stops, a second Ctrl-C leaves at once; metapl resume RUN goes on, to the same bits.
    A folder that holds a run is never overwritten.

    Examples:

      metapl train two_moons_mpl

      metapl train two_moons_mpl --help     lists the settings, with the preset's values

      metapl train two_moons_mpl_uda --stages.0.method.consistency.temperature 0.7 --seeds 20
    """
    from metapl import config as configs

    if not args or args[0].startswith("-"):
        _train_help(wanted=any(arg in ("-h", "--help") for arg in args))

    from metapl.cli.data import folders
    from metapl.runs import run, run_folder
    from metapl.system import processes, runtime
    from metapl.train.groups import AtOnce

    @dataclass(frozen=True)
    class Flags:
        config: Annotated[configs.Config, tyro.conf.arg(name="")]
        seeds: Annotated[int, Ge(1)] = 1
        """How many runs: with seed, seed + 1, and so on."""
        seeds_at_once: AtOnce = "auto"
        """How many of them train at once. auto: all where networks are small, have no convolutions and are not fed from
        files, else one."""
        data_dir: Path | None = None
        """Where data files are, if the source has any. Default: the per-user cache."""
        out: Path | None = None
        """Folder of the run: new or empty. Default: runs/NAME, or the next free name after it."""
        cluster: Annotated[runtime.Cluster, tyro.conf.arg(name="")] = runtime.Cluster()

        def check(self) -> None:
            if self.seeds_at_once != "auto" and self.seeds_at_once < 1:
                raise ValueError(f"seeds_at_once takes auto or a number of at least 1, got {self.seeds_at_once}")

    loaded = configs.load(args[0])
    flags = parse(Flags, f"metapl train {args[0]}", train, args[1:], Flags(loaded))
    validate(flags)
    runtime.connect(flags.cluster)
    with processes.together():
        given = {"seeds": flags.seeds, "seeds_at_once": flags.seeds_at_once, "out": str(flags.out)}
        processes.check_same_everywhere(given | {"processes": processes.count()} | to_dict(flags.config))
        wanted = flags.out or Path("runs") / Path(args[0]).stem
        out = Path(processes.leader_decides(lambda: str(run_folder.claim(wanted if flags.out else next_free(wanted)))))
        runtime.start()
        run.run(flags.config, flags.seeds, flags.seeds_at_once, folders(flags.data_dir), out, _console())


def _console() -> Console:
    """The screen is process 0's."""
    from metapl.system import processes

    return Console(quiet=not processes.is_leader())


def _train_help(wanted: bool) -> None:
    """Without a preset there are no settings to list, but there are presets."""
    from metapl import config as configs

    console = Console(stderr=not wanted)
    if not wanted:
        raise ConfigError("train needs a preset or a TOML file first; metapl train --help lists the presets")
    say(console, "usage: metapl train PRESET_OR_TOML [--out RUN] [--SETTING VALUE …]\n")
    say(console, dedent(train.__doc__))
    say(console, "Presets, in groups by data or network; docs/presets.md has them with the paper's numbers:")
    presets = configs.presets()
    width = max(map(len, presets)) + 2
    for _, group in itertools.groupby(presets.items(), lambda preset: preset[0].split("_")[0]):
        console.print()
        for name, first_line in group:
            say(console, f"  {name:<{width}}{first_line}")
    raise SystemExit(0)


def resume(args: Sequence[str]) -> None:
    """Go on with a run that was stopped or killed, to the same end.

    RUN is the folder that metapl train --out made. The run goes on from its newest checkpoint with its own settings and
    ends with the same bits as if nothing had happened (same machine, same software). A damaged checkpoint is named and
    set aside, and the one before it is used. Nothing is trained if the run is finished, if another process is at work
    on it, or if its settings or data are not those that it began with. docs/runs.md tells what happens in each case.

    Examples:

      metapl train digits_mpl_small --out runs/mine      and Ctrl-C, or a power cut

      metapl resume runs/mine
    """
    from metapl.cli.data import folders
    from metapl.system import runtime

    @dataclass(frozen=True)
    class Flags:
        run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
        """The folder of the run."""
        data_dir: Path | None = None
        """Where data files are, if they were moved. Default: where the run found them."""
        mode: Literal["auto", "single", "data", "hybrid", "weights"] | None = None
        """Share the work in another way than the run began with: its `parallel.mode`."""
        model: Annotated[int, Ge(1)] = 1
        """With --mode hybrid: its `parallel.model`."""
        cluster: Annotated[runtime.Cluster, tyro.conf.arg(name="")] = runtime.Cluster()

    flags = parse(Flags, "metapl resume", resume, args)
    validate(flags)
    out, places = flags.run.absolute(), folders(flags.data_dir.absolute()) if flags.data_dir else None
    from metapl.runs import run, run_folder
    from metapl.system import processes
    from metapl.system.sharding import Parallel

    parallel = Parallel(flags.mode or "auto", flags.model) if flags.mode or flags.model > 1 else None
    if parallel:
        validate(parallel)
    runtime.connect(flags.cluster)
    with processes.together(), run_folder.where_it_began(out):
        runtime.start()
        run.resume(out, places, _console(), parallel)


def eval_run(args: Sequence[str]) -> None:
    """Evaluate a finished run's weights again, on the data that it was trained with.

    RUN is the folder of a run. Its settings, split and weights are read from there; data that are not those of the run
    are refused. Prints a table, says whether result.json has the same numbers, and with --out writes evaluation.json.

    Examples:

      metapl eval runs/digits_mpl_small

      metapl eval runs/mine --part val --data-dir ~/data --out evaluations/mine

      metapl eval runs/mine --json
    """

    @dataclass(frozen=True)
    class Flags:
        run: tyro.conf.Positional[Path]
        """The folder of a run."""
        part: Literal["test", "val"] = "test"
        """Which part of the data to ask about."""
        data_dir: Path | None = None
        """Where data files are, if the source has any. Default: the per-user cache."""
        out: Path | None = None
        """Folder for evaluation.json: new or empty. Default: nothing is written."""
        json: bool = False
        """Print JSON instead of the table."""

    flags = parse(Flags, "metapl eval", eval_run, args)

    from metapl.cli.data import folders
    from metapl.evaluate import again as evaluate_run
    from metapl.evaluate import results
    from metapl.system import runtime

    runtime.start()
    summary, remarks = evaluate_run.evaluate_run(flags.run, flags.part, folders(flags.data_dir))
    text = json.dumps(summary | {"remarks": remarks}, indent=2)
    if flags.out:
        (claim(flags.out) / "evaluation.json").write_text(text + "\n", "utf-8")
    console = Console()
    if flags.json:
        say(console, text)
        return
    console.print(results.table(summary, flags.part))
    for remark in remarks:
        say(console, remark)
