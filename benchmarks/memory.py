"""The memory that Reduced MPL saves: peak memory of its stage and of MPL's, with one network and one batch.

    python benchmarks/memory.py [--hidden 4096] [--batch 16]

Each method trains in a new process, after a supervised stage with the same network, on noise. Prints as Markdown: the
memory of the step by XLA's plan, how much of that are its arguments, the arrays that live between two steps, and the
peak memory of the process.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metapl import config as configs
from metapl.config import Config
from metapl.data.loading import loader
from metapl.data.sources.dataset import Dataset
from metapl.system import runtime
from metapl.train import loop as train
from metapl.train.program import prepare

METHODS = ("mpl", "reduced_mpl")
SETTINGS = """
[data]
name = "digits"
[augmentation.weak]
flip = false
[model]
name = "mlp"
hidden = [{hidden}, {hidden}, {hidden}]
activation = "relu"
init_range = 0.01
[[stages]]
steps = 1
labeled_batch = {batch}
unlabeled_batch = {batch}
method = {{name = "supervised", optimizer.momentum = 0.9}}
[[stages]]
steps = 2
labeled_batch = {batch}
unlabeled_batch = {batch}
method = {{name = "{method}", student.momentum = 0.9, teacher.momentum = 0.9}}
"""


def noise() -> Dataset:
    """64 pictures of 32×32 pixels; the first stage's network predicts labels for all of them."""
    pictures = np.random.default_rng(0).integers(0, 256, (64, 32, 32, 3), np.uint8)
    labels = np.arange(64, dtype=np.int32) % 10
    return Dataset(pictures, labels, pictures, pictures[:0], labels[:0], tuple("0123456789"))


def held(config: Config) -> dict[str, int]:
    """Train, and measure live arrays and peak memory."""
    living = 0

    def between(snapshot: train.Snapshot) -> None:
        nonlocal living
        jax.block_until_ready(snapshot.state)
        if snapshot.stage == 1:
            living = sum(array.nbytes for array in jax.live_arrays())

    train.train(config, [0], [noise()], train.Hooks(between=between))
    return {"living": living, "rss": runtime.peak_rss_bytes()}


def planned(config: Config) -> dict[str, int]:
    """Compile the second stage's step from shapes alone."""
    dataset = noise()
    program = prepare(config, [dataset])
    data = jax.eval_shape(lambda: loader.resident(dataset))
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    before, stage = program.stages
    weights: Any = before.predictor(jax.eval_shape(before.init, keys, None, None, data, None))
    predictions = None
    if config.stages[1].method.uses_stored_predictions:
        each = jax.ShapeDtypeStruct((1, len(dataset.labels), 10), jnp.float16)
        weights, predictions = None, loader.PredictionsOnDevice(each, each)  # type: ignore[arg-type]
    state = jax.eval_shape(stage.init, keys, weights, predictions, data, None)
    totals = jax.eval_shape(stage.zeros, state, keys, predictions, data)
    plan = stage.advance.lower(state, totals, keys, predictions, data, 0, 1).compile().memory_analysis()
    everything = plan.argument_size_in_bytes + plan.temp_size_in_bytes + plan.output_size_in_bytes
    return {"arguments": plan.argument_size_in_bytes, "step": everything - plan.alias_size_in_bytes}


def main() -> None:
    """Measure each method in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", choices=[f"{what}:{method}" for what in ("held", "planned") for method in METHODS])
    flags = parser.parse_args()
    if flags.only:
        what, method = flags.only.split(":")
        runtime.start(keep_programs=False)
        text = SETTINGS.format(hidden=flags.hidden, batch=flags.batch, method=method)
        print(json.dumps({"held": held, "planned": planned}[what](configs.parse(text, "memory"))))
        return
    print("| | step's program | of it arguments | live arrays between steps | peak RSS |\n|---|---|---|---|---|")
    for method in METHODS:
        sizes: dict[str, int] = {}
        for what in ("held", "planned"):
            again = [sys.executable, *sys.argv, "--only", f"{what}:{method}"]
            sizes |= json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout)
        cells = (f"{sizes[name] / 1e6:,.0f} MB" for name in ("step", "arguments", "living", "rss"))
        print(f"| `{method}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
