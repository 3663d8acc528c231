"""`metapl train`: a run from its settings to its result, in a folder of its own."""

import json
import time
from pathlib import Path

from rich.console import Console

from metapl import data, evaluate, runlog
from metapl.config import Config, dump
from metapl.data.files import Folders
from metapl.schema import ConfigError
from metapl.statistics import mean_and_std
from metapl.train import train


def run(config: Config, seeds: int, folders: Folders, out: Path, console: Console) -> None:
    """Train with as many seeds as asked for, evaluate the last weights, write settings before and result after."""
    if config.seed + seeds > 2**32:
        raise ConfigError(f"the last seed would be {config.seed + seeds - 1}, above {2**32 - 1}")
    numbers = list(range(config.seed, config.seed + seeds))
    datasets = data.load(config.data, numbers, folders)
    if not len(datasets[0].test):
        raise ConfigError("the data have no test part: there would be nothing to measure the result on")
    (out / "config.toml").write_text(dump(config), "utf-8")
    if datasets[0].manifest is not None:
        (out / "split.json").write_text(json.dumps(datasets[0].manifest, indent=2) + "\n", "utf-8")
    start = time.monotonic()
    with runlog.progress(console) as watch_run:
        watch = watch_run(config.stages[-1].method.name, config)
        trained = train(config, numbers, datasets, watch)
    accuracies = evaluate.accuracies(trained, config.augmentation, datasets)
    mean, std = mean_and_std(accuracies)
    result = {
        "method": config.stages[-1].method.name,
        "accuracy": mean,
        "std": std,
        "accuracies": {str(seed): float(accuracy) for seed, accuracy in zip(numbers, accuracies, strict=True)},
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(time.monotonic() - start, 2),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    spread = f" ± {std:.2%} over {seeds} seeds" if seeds > 1 else ""
    console.print(
        f"accuracy {mean:.2%}{spread} after {result['steps']:,} steps; wrote {out}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
