"""Pictures per second from files: `python benchmarks/read_files.py FOLDER --size 64 --workers 0 2 --threads 1 2`.

FOLDER holds pictures at any depth. Each combination of settings reads for `--seconds` after a warm-up of a few batches.
"""

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np

from metapl.data.loading.files_loader import Take, stream
from metapl.data.loading.order import Shuffled
from metapl.data.sources.on_disk import Reading
from metapl.data.sources.source import Files

SUFFIXES = {".png", ".jpg", ".jpeg"}
WARM_UP = 10  # batches
NO_END = 10**9


def pictures_per_second(files: Files, batch: int, size: int, reading: Reading, seconds: float) -> float:
    """Read for a while and count."""
    take = Take(files, Shuffled(np.arange(6, dtype=np.uint32), batch, len(files)))
    counts = stream([take], size, reading, lambda _, pictures: len(pictures), steps=NO_END)
    for _ in range(WARM_UP):
        next(counts)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        count += next(counts)
    rate = count / (time.perf_counter() - start)
    counts.close()
    return rate


def main() -> None:
    """Measure every combination of the settings."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("folder", type=Path)
    flags.add_argument("--size", type=int, default=224)
    flags.add_argument("--batch", type=int, default=64)
    flags.add_argument("--seconds", type=float, default=6.0)
    flags.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    flags.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = flags.parse_args()
    paths = tuple(sorted(path for path in args.folder.rglob("*") if path.suffix.lower() in SUFFIXES))
    print(f"{len(paths):,} files, {len(os.sched_getaffinity(0))} cores")
    for workers, threads in itertools.product(args.workers, args.threads):
        rate = pictures_per_second(Files(paths), args.batch, args.size, Reading(workers, threads), args.seconds)
        print(f"workers {workers}, threads {threads}: {rate:,.0f} pictures/s")


if __name__ == "__main__":
    main()
