"""`metapl train`: a run from its settings to its result, in a folder of its own."""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl import data, evaluate, results, runlog
from metapl.config import Config, dump
from metapl.data.dataset import Dataset
from metapl.data.files import Folders
from metapl.groups import AtOnce, groups, seeds_together
from metapl.measures import per_class_accuracy
from metapl.results import Evaluation
from metapl.schema import ConfigError, to_dict
from metapl.train import Examine, Trained, prepare, train
from metapl.types import Metrics
from metapl.weights import save

Confusions = dict[int, NDArray[np.int64]]  # seed -> [right class, answer], at its last evaluation


def run(config: Config, seeds: int, at_once: AtOnce, folders: Folders, out: Path, console: Console) -> None:
    """Train with as many seeds as asked for, evaluate on the way, write settings before and result after."""
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
    history: list[Evaluation] = []
    confusions: Confusions = {}
    program = prepare(config, datasets)
    together = seeds_together(at_once, seeds, config, program, datasets[0])
    with runlog.progress(console) as screen:
        for group in groups(seeds, together):
            own, some = numbers[group], datasets[group]
            watch = screen.watch(title(config, own, seeds), config)
            examine = examiner(config, own, some, history, confusions)
            tell = say if group.start == 0 else lambda _: None  # what is true of every seed is said once
            trained = train(config, own, some, watch, tell, examine, program, screen.counting, out)
            save_weights(trained, config, datasets[0].class_names, own, out, alone=seeds == 1)
    summary = results.summarize(history)
    result = overview(config, summary, together, time.monotonic() - start) | summary
    result["per_class_accuracy"] = per_class(confusions, datasets[0].class_names)
    (out / "result.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", "utf-8")
    results.write_evaluations(out / "evaluations.csv", history)
    save_confusions(out / "confusion.npz", confusions, datasets[0].class_names)
    console.print(results.table(summary))
    accuracy = results.percent(summary["final"]["accuracy"])
    say(f"accuracy {accuracy} after {result['steps']:,} steps; wrote {out}")


def title(config: Config, group: Sequence[int], seeds: int) -> str:
    """What a bar is called: the method, and the seeds where there are bars for several."""
    name = config.stages[-1].method.name
    if len(group) == seeds:
        return name
    return f"{name}, seed {group[0]}" if len(group) == 1 else f"{name}, seeds {group[0]}–{group[-1]}"


def examiner(
    config: Config,
    seeds: Sequence[int],
    datasets: Sequence[Dataset],
    history: list[Evaluation],
    confusions: Confusions,
) -> Examine:
    """Make the function that the loop shows its networks to: it notes every score and reports the main ones."""

    def examine(stage: int, step: int, trained: Trained) -> Metrics:
        found = evaluate.examine(trained, config.augmentation, datasets)
        for seed, (test, confusion, val) in zip(seeds, found, strict=True):
            history.append(Evaluation(seed, stage, step, test, val))
            confusions[seed] = confusion
        metrics = {
            "test_accuracy": [one.test.accuracy for one in found],
            "test_nll": [one.test.nll for one in found],
            "val_accuracy": [one.val.accuracy for one in found if one.val],
        }
        return {name: jnp.asarray(values) for name, values in metrics.items() if values}

    return examine


def overview(config: Config, summary: Mapping[str, Any], together: int, seconds: float) -> dict[str, Any]:
    """What a reader of result.json looks for first; the accuracy is that of the final weights."""
    accuracy = summary["final"]["accuracy"]
    return {
        "method": config.stages[-1].method.name,
        "accuracy": accuracy["mean"],
        "std": accuracy["std"],
        "accuracies": accuracy["seeds"],
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(seconds, 2),
        "seeds_at_once": together,
    }


def per_class(confusions: Confusions, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """How well each class is recognised by the final weights; a class without test examples has no number."""
    accuracies = {seed: per_class_accuracy(confusion) for seed, confusion in confusions.items()}
    found: list[dict[str, Any]] = []
    for index, name in enumerate(class_names):
        own = {seed: value for seed, values in accuracies.items() if (value := values[index]) is not None}
        found.append({"class": name} | (results.spread(own) if own else {"mean": None}))
    return found


def save_confusions(path: Path, confusions: Confusions, class_names: Sequence[str]) -> None:
    """Write the final weights' answers as counts: `counts` [seed, right class, answer]; read without pickles."""
    counts = np.stack(list(confusions.values())).astype(np.int32)
    np.savez_compressed(path, counts=counts, seeds=np.array(list(confusions)), class_names=np.array(class_names))


def save_weights(
    trained: Trained, config: Config, class_names: Sequence[str], seeds: Sequence[int], out: Path, alone: bool
) -> None:
    """Write weights.safetensors, or one weights-SEED.safetensors for each seed."""
    for index, seed in enumerate(seeds):
        name = "weights.safetensors" if alone else f"weights-{seed}.safetensors"
        weights = jax.tree.map(lambda leaf, index=index: leaf[index], trained.weights)
        save(out / name, weights, to_dict(config.stage_models[-1]), class_names)
