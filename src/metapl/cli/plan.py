"""`metapl plan`."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from annotated_types import Ge

from metapl import config as configs
from metapl.cli.flags import asks_for_help, parse
from metapl.cli.verbs import print_help
from metapl.plan import estimate, example_shape
from metapl.plan import report as reports
from metapl.plan.progress import progress
from metapl.plan.target import Target, machine
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from metapl.system.terminal import Terminal, say


@dataclass(frozen=True)
class PlanFlags:
    """A run's settings, and the hardware to plan it for."""

    config: Annotated[configs.Config, tyro.conf.arg(name="")]
    target: Annotated[Target, tyro.conf.arg(name="")] = Target()
    stage: Annotated[int, Ge(0)] = 0
    """Plan the step of this stage; the first stage is 0."""
    classes: Annotated[int, Ge(0)] = 0
    """Number of classes, for sources that learn it from their files; 0: as the source says."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the stored pictures in pixels, for sources that learn it from their files; 0: as the source says."""
    machine_code: bool = True
    """Wait for the machine code. Without it, a TPU's compiler is stopped when all buffers are placed: a fraction of the
    time and of the memory, and all rows but the size of the program."""
    json: bool = False
    """Print JSON instead of the table."""

    def check(self) -> None:
        """Check that the stage exists, and that the compiler can be stopped."""
        if not self.machine_code and not self.target.topology:
            raise ValueError(
                "--no-machine-code needs a --topology: only a TPU's compiler works long enough to be stopped"
            )
        if self.stage >= len(self.config.stages):
            raise ValueError(f"--stage {self.stage}: the stages are 0 to {len(self.config.stages) - 1}")


def plan(args: Sequence[str]) -> None:
    """Plan a run for hardware you don't have: memory and time.

    Compiles the whole training step of a stage (views of a batch, teacher, student, feedback, optimizers, averages)
    from shapes alone, for a TPU slice or for simulated devices on this CPU. Says what each device holds, computes and
    sends (collectives), the least time that a step takes, and whether it fits; if not, what to change. Needs no data,
    TPU or GPU. Every setting is also a flag: --parallel.model, --model.remat, --stages.0.microbatches, …

    Exit code 0: it fits; 1: it does not. docs/scale.md explains the rows.

    Examples:
      metapl plan digits_mpl_small --devices 8
      metapl plan cifar10_4k_mpl --devices 8 --chip a100 --json
      metapl plan efficientnet_l2_mpl --topology v3:32x32 --no-machine-code      as in the paper (needs metapl[tpu])
      metapl plan resnet50_imagenet_mpl --topology v3:16x16 --parallel.mode data --help      lists all settings
    """
    if asks_for_help(args) and args[0].startswith("-"):
        print_help("metapl plan PRESET_OR_TOML --topology v3:32x32 | --devices 8 [--json] [--SETTING VALUE …]", plan)
        return
    if not args or args[0].startswith("-"):
        raise ConfigError("plan needs a preset or a TOML file first; metapl train --help lists the presets")
    flags = parse(PlanFlags, f"metapl plan {args[0]}", plan, args[1:], PlanFlags(configs.load(args[0])))
    validate(flags)
    shown = example_shape.of(flags.config, flags.classes, flags.size)
    runtime.start(keep_programs=False)
    with progress(Terminal(stderr=True)) as tell:
        target, code = machine(flags.target), flags.machine_code
        report = estimate.plan(flags.config, flags.stage, shown, target, tell, machine_code=code)
    _show({"preset": args[0], "topology": flags.target.topology or None, **report}, flags.json)
    if not code:
        sys.stdout.flush()
        os._exit(not report["fits"])  # the compiler is still at work, and cannot be interrupted
    if not report["fits"]:
        sys.exit(1)


def _show(report: dict[str, Any], as_json: bool) -> None:
    terminal = Terminal()
    if as_json:
        say(terminal, json.dumps(report, indent=2))
        return
    terminal.print(reports.table(report))
    for sentence in reports.sentences(report):
        say(terminal, sentence)
