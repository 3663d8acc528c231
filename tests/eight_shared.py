"""MPL on one device, on eight that share batches, and on eight that share pictures and weights, too. Run by a test.

Prints, for each network, what the test asks about.
"""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import dataclasses
import json
import re

import jax
import numpy as np

from metapl import train as loop
from metapl.algorithms.losses import Consistency
from metapl.algorithms.mpl import MPL
from metapl.config import Checkpoint, Config, Stage
from metapl.data.dataset import Dataset
from metapl.models.efficientnet import EfficientNet
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.sharding import Parallel
from metapl.train import Snapshot, prepare, train

OPTIMIZER = Optimizer(0.05, momentum=0.9, average_decay=0.9)
STAGE = Stage(
    MPL(consistency=Consistency(1.0), teacher=OPTIMIZER, student=OPTIMIZER),
    steps=3,
    labeled_batch=8,
    unlabeled_batch=16,
)
NETWORKS = {
    "wide_resnet": WideResNet(depth=10, width=1, dropout=0.3),
    # The widths of its activations are 16, 8, 4, 2 and 1: four devices share the last ones unevenly.
    "efficientnet": EfficientNet(width=0.25, depth=0.3, dropout=0.3),
}
MODES = {
    "single": Parallel("single"),
    "data": Parallel("data"),
    "hybrid": Parallel("hybrid", 4),
    "weights": Parallel("weights"),
}


def pictures(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (number, size, size, 3), np.uint8)


def dataset(size: int) -> Dataset:
    labels = np.arange(24, dtype=np.int32) % 4
    return Dataset(pictures(24, size), labels, pictures(50, size), pictures(9, size), labels[:9], ("a", "b", "c", "d"))


def far(one, many) -> float:
    """The largest difference of a leaf, as a share of its norm."""
    found = 0.0
    for a, b in zip(*map(jax.tree.leaves, (one, many)), strict=True):
        assert a.dtype == b.dtype
        found = max(found, float(np.linalg.norm(a - b) / (np.linalg.norm(a) + 1e-3)))
    return found


def run(config: Config, data: Dataset) -> tuple[Snapshot, loop.Program]:
    """Train, and give back how it ended."""
    program, last = prepare(config, [data]), []
    places = []

    def between(snapshot: Snapshot) -> None:
        places.append(jax.tree.map(lambda leaf: str(leaf.sharding), snapshot.state))
        last[:] = [jax.device_get((snapshot.state, snapshot.totals))]

    trained = train(config, [3], [data], program=program, between=between)
    assert places[0] == places[-1]
    assert program.stages[0].advance._cache_size() == 1  # nothing was compiled twice
    return last[0], program, trained


def lowered(program: loop.Program, data: Dataset, layout):
    """The compiled steps, with all that they hold where it belongs."""
    stage = program.stages[0]
    keys = jax.numpy.stack([jax.random.key(3)])
    inputs = layout.put((keys, None, loop.to_device([data], own_data=False)))
    state = layout.placed(jax.eval_shape(stage.init, inputs[0], None, None, inputs[2], None), leading=1)
    totals = layout.placed(jax.eval_shape(stage.zeros, state, *inputs), leading=1)
    return stage.advance.lower(state, totals, *inputs, 0, 3).compile()


def main() -> None:
    told = {}
    for name, size in (("wide_resnet", 16), ("efficientnet", 32)):
        config = Config(
            model=NETWORKS[name], stages=(STAGE,), log_every_steps=2, checkpoint=Checkpoint(every_minutes=0)
        )
        data, found = dataset(size), {}
        for mode in MODES if name == "wide_resnet" else ("single", "data", "hybrid"):
            parallel = dataclasses.replace(config, parallel=MODES[mode])
            state, program, trained = run(parallel, data)
            found[mode] = state
            told[f"{name} {mode}"] = {"far": far(found["single"], state)}
            if mode == "single":
                continue
            compiled = lowered(program, data, program.layout)
            text, memory = compiled.as_text(), compiled.memory_analysis()
            kernel = trained.weights.params["head"]["kernel"]
            told[f"{name} {mode}"] |= {
                "permutes": len(re.findall("collective-permute", text)),
                "bytes": memory.argument_size_in_bytes,
                "temporary_bytes": memory.temp_size_in_bytes,
                "kernel": kernel.addressable_shards[0].data.size / kernel.size,
                "devices": len(kernel.sharding.device_set),
            }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
