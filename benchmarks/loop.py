"""The cost of the whole loop: `train` with reports and checkpoints, compared with the bare steps, measured in turn.

python benchmarks/loop.py [--case digits|wrn] [--repeats 5] [--every-steps 0]

Both do the same steps of the same program on the same data. The bare side gives the device its steps as fast as it can
and waits for the last one. The other side is the loop as `metapl train` runs it: chunks, reports at the default
interval, metrics.jsonl, and a checkpoint at the end or, with --every-steps, more of them. Neither time includes what
happens only once (compiling, the first state). By default a run is saved every ten minutes, which is longer than this
benchmark, so the cost of a checkpoint is printed separately: how long it blocks the loop, and which share of ten
minutes that is. CPU time is printed, too: other programs disturb it less than wall-clock time.
"""

import argparse
import dataclasses
import importlib
import io
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from rich.console import Console

from metapl import config as configs
from metapl import data
from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.guards.say import guarding
from metapl.runs import journal, runlog
from metapl.runs.saver import Progress, Saver
from metapl.runs.work import noting
from metapl.system import runtime
from metapl.system.signals import Stop
from metapl.train.feeding import to_device
from metapl.train.loop import Hooks, Snapshot, train
from metapl.train.program import Program, prepare

WRN = """
[model]
name = "wide_resnet"
depth = 28
width = 2
"""
STEPS = {"digits": 5_000, "wrn": 20}


def settings(case: str, every_steps: int) -> Config:
    """MPL with a UDA teacher on digits: a perceptron, or WRN-28-2 with small batches."""
    config = configs.load("digits_mpl_small")
    stage = dataclasses.replace(config.stages[0], steps=STEPS[case])
    if case == "wrn":
        stage = dataclasses.replace(stage, labeled_batch=4, unlabeled_batch=4)
        config = dataclasses.replace(config, model=configs.parse(WRN, "wrn").model, log_every_steps=10)
    checkpoint = dataclasses.replace(config.checkpoint, every_steps=every_steps)
    return dataclasses.replace(config, stages=(stage,), checkpoint=checkpoint)


class Measured(NamedTuple):
    """Wall-clock seconds, CPU seconds of all cores, and the wall-clock seconds of saving."""

    wall: float
    cpu: float
    saving: float = 0.0
    checkpoints: int = 0


def bare(config: Config, program: Program, datasets: list[Dataset], steps: int) -> Measured:
    """The steps alone, without the first one."""
    resident = to_device(datasets, program.own_data)
    keys = jax.vmap(jax.random.fold_in, (0, None))(jnp.stack([jax.random.key(0)]), 0)
    functions = program.stages[0]
    state = functions.init(keys, None, None, resident, None)
    totals = jax.block_until_ready(functions.zeros(state, keys, None, resident))
    begin, cpu = time.perf_counter(), time.process_time()
    for first in range(1, steps, min(functions.longest, steps)):
        last = min(first + functions.longest, steps)
        state, totals = functions.advance(state, totals, keys, None, resident, first, last)
    jax.block_until_ready(state)
    return Measured(time.perf_counter() - begin, time.process_time() - cpu)


def whole(config: Config, program: Program, datasets: list[Dataset]) -> Measured:
    """The loop from the end of its first step, which is a piece of its own, to its last checkpoint."""
    begins: list[tuple[float, float]] = []
    saving = 0.0
    with tempfile.TemporaryDirectory() as folder, runlog.progress(Console(file=io.StringIO())) as screen:
        run = Path(folder)
        lines = journal.Journal(run / journal.FILE)
        guards = guarding(runlog.keeper(config, [0], datasets[0]), print)
        reports = screen.watch("loop", config, 0, [noting(lines, config, [0]), guards])
        saver = Saver(run, config, Progress(), lines, Stop(), print)

        def between(snapshot: Snapshot) -> None:
            nonlocal saving
            if not begins or saver.due(snapshot):
                jax.block_until_ready(snapshot.state)  # so that the time of steps does not count as saving
            if not begins:
                begins.append((time.perf_counter(), time.process_time()))
            begin = time.perf_counter()
            saver.between(snapshot, reports.flush)
            saving += time.perf_counter() - begin

        train(config, [0], datasets, Hooks(reports, between=between), program)
        begin = time.perf_counter()
        saver.close()
        lines.close()
        now = time.perf_counter()
        saves = sum('"checkpoint"' in line for line in (run / "log.jsonl").read_text().splitlines())
        return Measured(now - begins[0][0], time.process_time() - begins[0][1], saving + now - begin, saves)


def main() -> None:
    """Measure in turns, and print medians and the median of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=STEPS, default="digits")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--every-steps", type=int, default=0, help="steps between checkpoints, besides the default ones"
    )
    flags = parser.parse_args()
    runtime.start()
    importlib.import_module("orbax.checkpoint")  # the loop would import it at its first checkpoint
    config = settings(flags.case, flags.every_steps)
    datasets = data.load(config.data, [0], ())
    program = prepare(config, datasets)
    steps = config.stages[0].steps
    bare(config, program, datasets, 2)  # compiles
    pairs = []
    for _ in range(flags.repeats):
        pairs.append((bare(config, program, datasets, steps), whole(config, program, datasets)))
        print(*pairs[-1], flush=True)
    report("loop with its checkpoints, clock", [loop.wall / alone.wall for alone, loop in pairs])
    report("loop with its checkpoints, CPU  ", [loop.cpu / alone.cpu for alone, loop in pairs])
    report("loop without saving, clock      ", [(loop.wall - loop.saving) / alone.wall for alone, loop in pairs])
    each = statistics.median(loop.saving / loop.checkpoints for _, loop in pairs)
    print(
        f"a checkpoint takes {1000 * each:.0f} ms, {each / 600:.3%} of ten minutes; {pairs[0][1].checkpoints} of them"
    )


def report(name: str, ratios: list[float]) -> None:
    """One line of the table: times over those of the bare steps."""
    print(f"{name}  {statistics.median(ratios):.4f} of the bare steps ({min(ratios):.4f} to {max(ratios):.4f})")


if __name__ == "__main__":
    main()
