"""`metapl train`: a run from its settings to its result, in a folder of its own."""

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
from rich.console import Console

from metapl import data, evaluate, runlog
from metapl.config import Config, dump
from metapl.data.files import Folders
from metapl.schema import ConfigError, to_dict
from metapl.statistics import mean_and_std
from metapl.train import Trained, train
from metapl.weights import save


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
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    start = time.monotonic()
    with runlog.progress(console) as screen:
        watch = screen.watch(config.stages[-1].method.name, config)
        trained = train(config, numbers, datasets, watch, say, screen.counting, out)
    save_weights(trained, config, datasets[0].class_names, numbers, out)
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
    say(f"accuracy {mean:.2%}{spread} after {result['steps']:,} steps; wrote {out}")


def save_weights(trained: Trained, config: Config, class_names: Sequence[str], seeds: Sequence[int], out: Path) -> None:
    """Write weights.safetensors, or one weights-SEED.safetensors for each seed."""
    for index, seed in enumerate(seeds):
        name = f"weights-{seed}.safetensors" if len(seeds) > 1 else "weights.safetensors"
        weights = jax.tree.map(lambda leaf, index=index: leaf[index], trained.weights)
        save(out / name, weights, to_dict(config.stage_models[-1]), class_names)
