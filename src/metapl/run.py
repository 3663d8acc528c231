"""`metapl train`: one run from its settings to its result, in a folder of its own."""

import json
import time
from pathlib import Path

from rich.console import Console

from metapl import evaluate, runlog
from metapl.config import Config, dump
from metapl.train import train


def run(config: Config, out: Path, console: Console) -> None:
    """Train, evaluate the last weights, and write down the settings before and the result after."""
    (out / "config.toml").write_text(dump(config), "utf-8")
    start = time.monotonic()
    with runlog.progress(console, config.stages[-1].method.name, config) as watch:
        trained = train(config, [config.seed], watch)
    accuracy = float(evaluate.accuracies(trained)[0])
    result = {
        "method": config.stages[-1].method.name,
        "seed": config.seed,
        "accuracy": accuracy,
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(time.monotonic() - start, 2),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"accuracy {accuracy:.2%} after {result['steps']:,} steps; wrote {out}", highlight=False)
