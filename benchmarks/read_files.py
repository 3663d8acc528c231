"""Pictures per second from files: `python benchmarks/read_files.py FOLDER --size 64 --workers 0 2 --threads 1 2`.

FOLDER holds pictures at any depth. Every setting reads for `--seconds` after a warm-up of a few batches.
"""

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np

from metapl.data.files_loader import Reading, stream
from metapl.data.source import Files, Part

SUFFIXES = {".png", ".jpg", ".jpeg"}


def pictures_per_second(part: Part, batch: int, reading: Reading, seconds: float) -> float:
    """Read for a while and count."""
    pictures = stream(part, batch, 0, 0, reading)
    for _ in range(2 * max(reading.workers, 1) * reading.prefetch_batches):
        next(pictures)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        count += len(next(pictures).labels)
    rate = count / (time.perf_counter() - start)
    pictures.close()
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
    part = Part(Files(paths), np.full(len(paths), -1, np.int32))
    print(f"{len(paths):,} files, {len(os.sched_getaffinity(0))} cores")
    for workers, threads in itertools.product(args.workers, args.threads):
        rate = pictures_per_second(part, args.batch, Reading(args.size, workers, threads), args.seconds)
        print(f"workers {workers}, threads {threads}: {rate:,.0f} pictures/s")


if __name__ == "__main__":
    main()
