"""Run a campaign of faults, bounded and repeatable.

python -m faults kills  [--number 20] [--seed 0] [--scenes train-mpl fit …] [--keep FOLDER]    run in benchmarks/
python -m faults disks  [--scenes …]
python -m faults inputs [--number 1000] [--seed 0] [--kinds toml picture …] [--keep FOLDER]

kills   SIGKILL at random moments, and shortly after something was written; then the command that continues. The files
        that count must end with the bits of a run that nobody disturbed.
disks   A disk that is full or read-only (a small tmpfs, which takes root), files of 1990 and of 2037, a clock that
        jumps, two writers at once, damaged checkpoints and caches: bits equal in the end, or one clear sentence.
inputs  Mutated settings, lists, pictures, weights, arrays, records, tar shards, Parquet files, files of runs, and HTTP
        requests, and random networks for ONNX: a result, or one clear sentence. An input that gives a traceback is made
        smaller and kept in --keep.

It starts only its own processes, ends only those, and stops by itself. The exit code is 1 if anything failed.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

from faults import disks, inputs, kills
from faults.scenes import FORK, SCENES

MOST_BYTES = 12 << 30  # of memory that mutated inputs may take, with all libraries


def main() -> None:
    """Read the flags, run one campaign, print a line of JSON for each finding and one for the sum."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="faults", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("campaign", choices=("kills", "disks", "inputs"))
    parser.add_argument("--number", type=int, default=0, help="kills of each scene (20), or inputs of each kind (1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenes", nargs="*", choices=sorted(SCENES), default=sorted(SCENES))
    parser.add_argument("--kinds", nargs="*", choices=sorted(inputs.KINDS), default=sorted(inputs.KINDS))
    parser.add_argument(
        "--keep",
        type=Path,
        help="a folder for inputs that failed, made smaller, or for the files of a command that did",
    )
    parser.add_argument("--fork", action="store_true", help="start commands by fork (forked.py), for many kills")
    flags = parser.parse_args()
    if flags.fork:
        os.environ[FORK] = "1"
    started = time.monotonic()
    if flags.campaign == "kills":
        reports = [kills.campaign(name, flags.number or 20, flags.seed, flags.keep) for name in flags.scenes]
    elif flags.campaign == "disks":
        reports = [disks.campaign(name) for name in flags.scenes]
    else:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))  # an input that asks for more is a failure
        reports = [inputs.campaign(kind, flags.number or 1000, flags.seed, flags.keep) for kind in flags.kinds]
    failures = sum(len(report["failures"]) for report in reports)
    total = sum(report["number"] for report in reports)
    print(json.dumps({"campaign": flags.campaign, "number": total, "seed": flags.seed, "failures": failures,
                      "seconds": round(time.monotonic() - started)}))  # fmt: skip
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
