"""The cost of feeding from files: `python benchmarks/feed.py PRESET --data-dir DIR --pictures 4000 --workers 0`.

Writes the first pictures of the preset's data as PNG files into a folder that is removed at the end. Prints the
pictures per second of the feed alone, and a training step's time with the same pictures on the device and from files,
measured in turn.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
from PIL import Image

from metapl import config as configs
from metapl import data
from metapl.config import Config
from metapl.data.sources.folder import Folder
from metapl.data.sources.source import Images, PictureConfig
from metapl.system import runtime
from metapl.train.feeding import feeding, to_device
from metapl.train.program import prepare

FIRST_STAGE, WARM_UP_STEPS = 0, 3


def write_pictures(source: PictureConfig, data_dir: Path, count: int, folder: Path) -> None:
    """Leave `count` pictures without labels, and a tenth as many with labels, in a folder."""
    loaded = data.pictures.load(source, [data_dir])
    for row, label in enumerate(loaded.labels("labeled")[: count // 10]):
        save(loaded.images("labeled"), row, folder / "labeled" / loaded.class_names[label])
    for row in range(count):
        save(loaded.images("unlabeled"), row, folder / "unlabeled")


def save(images: Images, row: int, folder: Path) -> None:
    """Write one picture."""
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(images[row]).save(folder / f"{row:06}.png")


@contextmanager
def training(config: Config) -> Iterator[tuple[Callable[[int], float], Callable[[int], float]]]:
    """Two functions that do so many steps and return seconds per step: training, and the feed alone."""
    datasets = data.load(config.data, [0], ())
    program, stage = prepare(config, datasets), config.stages[FIRST_STAGE]
    resident = None if datasets[0].from_files else to_device(datasets, own_data=False)
    functions, keys, at = program.stages[FIRST_STAGE], jnp.stack([jax.random.key(0)]), 0
    with feeding(stage, datasets[0], resident, None, keys, first=0) as feed:
        state = functions.init(keys, None, None, feed.at(0), None)
        totals = functions.zeros(state, keys, None, feed.at(0))

        def train(steps: int) -> float:
            nonlocal state, totals, at
            begin, end, longest = time.perf_counter(), at + steps, min(feed.longest, functions.longest)
            while at < end:
                last = min(end, at + longest)
                state, totals = functions.advance(state, totals, keys, None, feed.at(at), at, last)
                at = last
            jax.block_until_ready(totals)
            return (time.perf_counter() - begin) / steps

        def only_feed(steps: int) -> float:
            nonlocal at
            begin = time.perf_counter()
            for step in range(at, at + steps):
                feed.at(step)
            at += steps
            return (time.perf_counter() - begin) / steps

        train(WARM_UP_STEPS)
        yield train, only_feed


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("preset")
    flags.add_argument("--data-dir", type=Path, default=Path())
    flags.add_argument("--pictures", type=int, default=4000)
    flags.add_argument("--workers", type=int, default=0)
    flags.add_argument("--steps", type=int, default=10, help="steps of a turn")
    flags.add_argument("--rounds", type=int, default=5)
    args = flags.parse_args()
    runtime.start()
    config = configs.load(args.preset)
    assert isinstance(config.data, PictureConfig)
    with tempfile.TemporaryDirectory() as folder:
        write_pictures(config.data, args.data_dir, args.pictures, Path(folder))
        memory, files = (
            dataclasses.replace(config, data=Folder(path=folder, feed=feed, workers=args.workers))
            for feed in ("memory", "files")
        )
        with training(memory) as (from_memory, _), training(files) as (from_files, only_feed):
            turns = [(from_memory(args.steps), from_files(args.steps)) for _ in range(args.rounds)]
            alone = min(only_feed(args.steps) for _ in range(args.rounds))
    stage = config.stages[FIRST_STAGE]
    pictures = stage.labeled_batch + stage.unlabeled_batch
    for name, seconds in zip(("on the device", "from files"), zip(*turns, strict=True), strict=True):
        print(
            f"{name}: {1000 * statistics.median(seconds):.1f} ms a step (median), {1000 * min(seconds):.1f} ms (best)"
        )
    ratio = statistics.median(fed / resident for resident, fed in turns)
    print(f"from files, a step takes {ratio:.3f} times as long; the feed alone: {pictures / alone:,.0f} pictures/s")


if __name__ == "__main__":
    main()
