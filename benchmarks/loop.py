"""What the whole loop costs: `train` with reports and checkpoints, against the bare steps, in turns.

python benchmarks/loop.py [--case digits|wrn] [--repeats 5] [--every-steps 0]

Both do the same steps of the same program on the same data. The bare side gives the device all steps at once and waits
for them; the other side is the loop as `metapl train` runs it: pieces, reports at the default interval, metrics.jsonl,
and checkpoints at the default interval or every so many steps. What both do only once (compiling, the first state, the
evaluation at the end) is in neither time.
"""

import argparse
import dataclasses
import importlib
import io
import statistics
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console

from metapl import config as configs
from metapl import data, journal, runlog, runtime
from metapl.config import Config
from metapl.data.dataset import Dataset
from metapl.guards.say import guarding
from metapl.run import noting
from metapl.saver import Found, Saver
from metapl.signals import Stop
from metapl.train import Program, Snapshot, prepare, to_device, train

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


def bare(config: Config, program: Program, datasets: list[Dataset], steps: int) -> float:
    """Seconds for the steps alone."""
    resident = to_device(datasets, program.own_data)
    keys = jax.vmap(jax.random.fold_in, (0, None))(jnp.stack([jax.random.key(0)]), 0)
    functions = program.stages[0]
    state = functions.init(keys, None, None, resident, None)
    totals = jax.block_until_ready(functions.zeros(state, keys, None, resident))
    begin = time.perf_counter()
    jax.block_until_ready(functions.advance(state, totals, keys, None, resident, 0, steps))
    return time.perf_counter() - begin


def whole(config: Config, program: Program, datasets: list[Dataset]) -> float:
    """Seconds from before the first piece to the end of the last one, the checkpoint at the end included."""
    begins: list[float] = []
    with tempfile.TemporaryDirectory() as folder, runlog.progress(Console(file=io.StringIO())) as screen:
        run = Path(folder)
        lines = journal.Journal(run / journal.FILE)
        guards = guarding(runlog.keeper(config, [0], datasets[0]), print)
        reports = screen.watch("loop", config, 0, [noting(lines, config, [0]), guards])
        saver = Saver(run, config, Found(), lines, Stop(), print)
        saver.flush = reports.flush

        def between(snapshot: Snapshot) -> None:
            if not begins:  # the first piece is one step: what is waited for here is the first state and that step
                jax.block_until_ready(snapshot.state)
                begins.append(time.perf_counter())
            saver.between(snapshot)

        train(config, [0], datasets, reports, program=program, between=between)
        saver.close()
        lines.close()
        return time.perf_counter() - begins[0]


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
        print(f"bare {pairs[-1][0]:7.2f} s, loop {pairs[-1][1]:7.2f} s", flush=True)
    ratios = [b / a for a, b in pairs]
    for name, values in zip(("bare", "loop"), zip(*pairs, strict=True), strict=True):
        print(f"{name}  {1000 * statistics.median(values) / steps:9.3f} ms a step (median of {flags.repeats})")
    print(f"ratio {statistics.median(ratios):.4f} (from {min(ratios):.4f} to {max(ratios):.4f}), {steps:,} steps")


if __name__ == "__main__":
    main()
