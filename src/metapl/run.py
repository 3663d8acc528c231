"""`metapl train`: a run from its settings to its result, in a folder of its own."""

import json
import time
from pathlib import Path

from rich.console import Console

from metapl import evaluate, runlog
from metapl.config import Config, dump
from metapl.statistics import mean_and_std
from metapl.train import train


def run(config: Config, seeds: int, out: Path, console: Console) -> None:
    """Train with as many seeds as asked for, evaluate the last weights, write settings before and result after."""
    (out / "config.toml").write_text(dump(config), "utf-8")
    start = time.monotonic()
    with runlog.progress(console) as watch_run:
        watch = watch_run(config.stages[-1].method.name, config)
        trained = train(config, range(config.seed, config.seed + seeds), watch)
    accuracies = evaluate.accuracies(trained)
    mean, std = mean_and_std(accuracies)
    result = {
        "method": config.stages[-1].method.name,
        "accuracy": mean,
        "std": std,
        "accuracies": {str(config.seed + i): float(accuracy) for i, accuracy in enumerate(accuracies)},
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(time.monotonic() - start, 2),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    spread = f" ± {std:.2%} over {seeds} seeds" if seeds > 1 else ""
    console.print(f"accuracy {mean:.2%}{spread} after {result['steps']:,} steps; wrote {out}", highlight=False)
