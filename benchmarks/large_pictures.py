"""What a large picture costs before and in a training step: `python benchmarks/large_pictures.py --size 224`.

Prints processor milliseconds for each picture, measured in turn: reading a JPEG file of 500×375 pixels (about the mean
of ImageNet's) to the size that is stored, its weak and strong view, and its share of a ResNet-50 training step. The
files are written to a folder that is removed at the end.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from metapl.augment import views
from metapl.augment.randaugment import RandAugment, distort
from metapl.bench import program
from metapl.bench.settings import NETWORKS, Bench
from metapl.data.reading.decode import decode_file
from metapl.data.reading.resize import TO_SCALE, centre_square
from metapl.system import runtime
from metapl.types import Array

WIDTH, HEIGHT, QUALITY, FILES = 500, 375, 90, 32
MARGIN = 8 / 7  # pictures are stored larger than their views: 256 for 224


def write_files(folder: Path) -> list[Path]:
    """Smooth noise with the detail of a photograph: about 100 kB for each file."""
    noise = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(FILES)]
    for path in paths:
        coarse = Image.fromarray(noise.integers(0, 256, (47, 63, 3), np.uint8)).resize((WIDTH, HEIGHT))
        fine = np.asarray(coarse, np.int16) + noise.integers(-16, 17, (HEIGHT, WIDTH, 3), np.int16)
        Image.fromarray(fine.clip(0, 255).astype(np.uint8)).save(path, quality=QUALITY)
    return paths


def reading(paths: list[Path], size: int) -> Callable[[], Any]:
    """Read all files."""
    return lambda: [centre_square(decode_file(path, TO_SCALE * size), size) for path in paths]


def viewing(stored: int, size: int, batch: int) -> Callable[[], Any]:
    """Make the weak and the strong view of a batch."""
    strong = RandAugment()
    config = views.Augmentation(size=size, weak=views.WeakView(crop="resized"), strong=strong)
    pictures = jax.random.bits(jax.random.key(0), (batch, stored, stored, 3), jnp.uint8)

    @jax.jit
    def both(pictures: Array, key: Array) -> tuple[Array, Array]:
        weak_key, strong_key = jax.random.split(key)
        weak = views.weak(config, pictures, weak_key)
        return views.normalize(config, weak), views.normalize(config, distort(strong, weak, strong_key))

    keys: Iterator[Array] = (jax.random.key(number) for number in range(10**6))
    return lambda: both(pictures, next(keys))


def stepping(size: int, batch: int) -> Callable[[], Any]:
    """One supervised step of ResNet-50."""
    case = program.build(Bench(NETWORKS["resnet"](), batch=(batch,), size=size, classes=1000), batch)
    state = case.init(case.key, case.views)

    def step() -> Any:
        nonlocal state
        state, metrics = case.step(state, case.views, case.key)
        return state, metrics

    return step


def processor_ms(work: Callable[[], Any]) -> float:
    """Processor time of one call, on all threads: other programs disturb it less than the clock."""
    begin = time.process_time()
    jax.block_until_ready(work())
    return 1e3 * (time.process_time() - begin)


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--size", type=int, default=224)
    flags.add_argument("--batch", type=int, default=8)
    flags.add_argument("--rounds", type=int, default=7)
    args = flags.parse_args()
    runtime.start()
    stored = round(args.size * MARGIN)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder))
        kilobytes = sum(path.stat().st_size for path in paths) / FILES / 1e3
        works = {
            f"read a JPEG of {WIDTH}×{HEIGHT}, {kilobytes:.0f} kB": (reading(paths, stored), FILES),
            f"weak and strong view at {args.size}²": (viewing(stored, args.size, args.batch), args.batch),
            f"ResNet-50 step at {args.size}²": (stepping(args.size, args.batch), args.batch),
        }
        for work, _ in works.values():
            work()
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(args.rounds):
            for name, (work, pictures) in works.items():
                times[name].append(processor_ms(work) / pictures)
    step_ms = statistics.median(list(times.values())[-1])
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name}: {median:.1f} ms a picture (best {min(each):.1f}), {median / step_ms:.1%} of the step")


if __name__ == "__main__":
    main()
