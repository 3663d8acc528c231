"""What a step of each method costs: processor time, arithmetic and memory, with one network and one batch.

    python benchmarks/methods.py [METHOD …] [--out FILE]

The programs are those of `metapl bench wide_resnet METHOD --model.depth 10 --model.width 1 --batch 16`, one after the
other in this process: 16 labelled and 16 unlabelled pictures of 32×32 pixels, which are noise. Prints as Markdown;
ratios are to the supervised step. Processor time is the lowest of several steps, so it depends little on what else the
machine does; arithmetic is counted before the compiler merges equal passes. Memory of single examples is for the 16 of
the batch. FILE keeps what was measured: methods that it has are not measured again.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax

from metapl import config as configs
from metapl.algorithms import METHODS
from metapl.bench import flops, program
from metapl.bench.settings import Bench
from metapl.models.wide_resnet import WideResNet
from metapl.schema import from_dict
from metapl.system import runtime
from metapl.types import MethodConfig

BATCH, REPEATS = 16, 12
SIZES: dict[str, dict[str, Any]] = {  # of methods whose own do not fit 16 pictures
    "pcl": {"clusters": (4, 8), "queue": 1024},
    "moco": {"queue": 1024},
    "pirl": {"negatives": 1024},
}


def methods() -> dict[str, type[MethodConfig]]:
    """All methods, `supervised` first."""
    return {kind.name: kind for kind in METHODS}


def measure(name: str) -> dict[str, float]:
    """Measure one method's step."""
    method = from_dict(MethodConfig, {"name": name, **SIZES.get(name, {})}, configs.KINDS, methods()[name]())
    case = program.build(Bench(WideResNet(depth=10, width=1), method, batch=(BATCH,)), BATCH)
    state = case.init(case.key, case.views)
    gflop = flops.count(case.step, state, case.views, case.key) / 1e9
    step = case.step.lower(state, case.views, case.key).compile()
    plan, spent = step.memory_analysis(), []
    for _ in range(REPEATS):
        start = time.process_time()
        state, metrics = step(state, case.views, case.key)
        jax.block_until_ready((state, metrics))
        spent.append(time.process_time() - start)
    size = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes + plan.temp_size_in_bytes
    return {"ms": 1e3 * min(spent), "gflop": gflop, "mib": size / 2**20}


def table(measured: dict[str, dict[str, float]]) -> str:
    """The measurements as Markdown, with ratios to the supervised step."""
    base = measured["supervised"]
    lines = ["| method | processor time (ms) | × | GFLOP | × | MiB | × |", "|---|---|---|---|---|---|---|"]
    for name, one in measured.items():
        numbers = (("ms", 0), ("gflop", 2), ("mib", 0))
        cells = [f"{one[key]:.{digits}f} | {one[key] / base[key]:.1f}" for key, digits in numbers]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="METHOD", help="only these, and supervised")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a JSON file for the measurements")
    flags = parser.parse_args()
    runtime.start()
    measured = json.loads(flags.out.read_text("utf-8")) if flags.out and flags.out.exists() else {}
    for name in methods():
        if name in measured or (flags.names and name not in ("supervised", *flags.names)):
            continue
        measured[name] = measure(name)
        if flags.out:
            flags.out.write_text(json.dumps(measured, indent=2) + "\n", "utf-8")
    print(table(measured))


if __name__ == "__main__":
    main()
