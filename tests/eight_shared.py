"""MPL on one device, on eight that share batches, and on eight that share pictures and weights, too. Run by a test.

Prints, for each network and each way to share, what the test asks about.
"""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import json
import time

import jax
import numpy as np

from metapl.algorithms.mpl import MPL
from metapl.config import Config, Stage
from metapl.data.dataset import Dataset
from metapl.models.efficientnet import EfficientNet
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.sharding import Parallel
from metapl.train import StageProgram, prepare, train

OPTIMIZER = Optimizer(0.05, momentum=0.9, average_decay=0.9)
STAGE = Stage(MPL(teacher=OPTIMIZER, student=OPTIMIZER), steps=3, labeled_batch=8, unlabeled_batch=16)
MODES = {
    "single": Parallel("single"),
    "data": Parallel("data"),
    "weights": Parallel("weights"),
    "hybrid of 2": Parallel("hybrid", 2),
    "hybrid of 4": Parallel("hybrid", 4),
}
CASES = [
    ("wide_resnet", WideResNet(depth=10, width=1, dropout=0.3), 8, tuple(MODES)),
    # Its activations are 8, 4, 2 and 1 pixels wide: of the last ones, four devices cannot have equal parts.
    ("efficientnet", EfficientNet(width=0.25, depth=0.3, dropout=0.3), 16, ("single", "data", "hybrid of 4")),
]


def pictures(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (number, size, size, 3), np.uint8)


def dataset(size: int) -> Dataset:
    labels = np.arange(24, dtype=np.int32) % 4
    return Dataset(pictures(24, size), labels, pictures(50, size), pictures(9, size), labels[:9], ("a", "b", "c", "d"))


class Once:
    """The loop's steps, compiled once: what a later call gives must be where the first call's was, or it is refused."""

    def __init__(self, functions: StageProgram) -> None:
        self._advance, self.compiled = functions.advance, None

    def __call__(self, *args):
        if self.compiled is None:
            self.compiled = self._advance.lower(*args).compile()
        return self.compiled(*args)


def far(one, many) -> float:
    """The largest difference of a leaf of the state, as a share of its norm."""
    found = 0.0
    for a, b in zip(*map(jax.tree.leaves, (one, many)), strict=True):
        found = max(found, float(np.linalg.norm(a - b) / (np.linalg.norm(a) + 1e-3)))
    return found


def run(config: Config, data: Dataset):
    """Train; give back how it ended, on the host and on the devices, and the compiled steps."""
    program, ends = prepare(config, [data]), []
    once = Once(program.stages[0])
    program = program._replace(stages=(program.stages[0]._replace(advance=once),))
    train(config, [3], [data], program=program, between=lambda snapshot: ends.append(jax.device_get(snapshot[2:4])))
    places = jax.tree.leaves(once.compiled.output_shardings)
    return ends, places, once.compiled


def main() -> None:
    told = {}
    for name, model, size, modes in CASES:
        one = None
        for mode in modes:
            begin = time.monotonic()
            config = Config(model=model, stages=(STAGE,), log_every_steps=3, parallel=MODES[mode])
            ends, places, compiled = run(config, dataset(size))
            one, memory = one or ends[-1], compiled.memory_analysis()
            told[f"{name}, {mode}"] = {
                "far": far(one, ends[-1]),
                "moved": far(ends[0], ends[-1]),
                "split": sum(not place.is_fully_replicated for place in places),
                "donated": memory.alias_size_in_bytes,
                "permutes": compiled.as_text().count("collective-permute("),
                "state_bytes": memory.output_size_in_bytes,
                "bytes": memory.temp_size_in_bytes + memory.argument_size_in_bytes,
                "seconds": round(time.monotonic() - begin, 1),
            }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
