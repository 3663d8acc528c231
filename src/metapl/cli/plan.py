"""The command line's side: from a preset and flags to a table or JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from annotated_types import Ge
from rich.console import Console

from metapl import config as configs
from metapl.cli.flags import dedent, parse
from metapl.plan import examples, run
from metapl.plan import report as reports
from metapl.plan.progress import progress
from metapl.plan.target import Target, machine
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.terminal import say


def plan(args: Sequence[str], verb: Callable[..., None]) -> None:
    """Read the preset, then the flags; compile; print."""
    if not args or args[0].startswith("-"):
        if any(arg in ("-h", "--help") for arg in args):
            usage = "usage: metapl plan PRESET_OR_TOML --topology v3:32x32 | --devices 8 [--json] [--SETTING VALUE …]\n"
            say(Console(), f"{usage}\n{dedent(verb.__doc__)}")
            return
        raise ConfigError("plan needs a preset or a TOML file first; metapl train --help lists the presets")

    @dataclass(frozen=True)
    class Flags:
        config: Annotated[configs.Config, tyro.conf.arg(name="")]
        target: Annotated[Target, tyro.conf.arg(name="")] = Target()
        stage: Annotated[int, Ge(0)] = 0
        """Which stage's step; the first one is 0."""
        classes: Annotated[int, Ge(0)] = 0
        """How many classes the data have, where the source does not say; 0: as it says."""
        size: Annotated[int, Ge(0)] = 0
        """Side of the stored pictures in pixels, where the source does not say; 0: as it says."""
        json: bool = False
        """Print JSON instead of the table."""

    flags = parse(Flags, f"metapl plan {args[0]}", verb, args[1:], Flags(configs.load(args[0])))
    validate(flags)
    if flags.stage >= len(flags.config.stages):
        raise ConfigError(f"--stage {flags.stage}: the stages are 0 to {len(flags.config.stages) - 1}")
    shown = examples.of(flags.config, flags.classes, flags.size)
    runtime.start(keep_programs=False)
    with progress(Console(stderr=True)) as tell:
        report = run.plan(flags.config, flags.stage, shown, machine(flags.target), tell)
    report = {"preset": args[0], "topology": flags.target.topology or None, **report}
    console = Console()
    if flags.json:
        say(console, json.dumps(report, indent=2))
    else:
        console.print(reports.table(report))
        for sentence in reports.sentences(report):
            say(console, sentence)
    if not report["fits"]:
        sys.exit(1)
