"""Write a run's result: result.json, evaluations.csv, confusion.npz and the weights."""

import errno
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from safetensors import SafetensorError

from metapl.config import Config
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import results
from metapl.evaluate.measures import per_class_accuracy
from metapl.runs import run_folder
from metapl.runs.saver import Progress, log
from metapl.schema import to_dict
from metapl.system import processes
from metapl.system.disk import explaining_disk_errors, write_atomically
from metapl.system.sharding import to_host
from metapl.system.terminal import say
from metapl.train.loop import Trained
from metapl.weights import Example, save

Confusions = Mapping[int, NDArray[np.int64]]  # seed -> [true class, predicted class], at its last evaluation


def write_result(
    out: Path, config: Config, progress: Progress, class_names: Sequence[str], seeds_at_once: int, console: Console
) -> None:
    """Summarise the scores and write them. result.json comes last: a run that has it is finished."""
    summary = results.summarize(progress.history)
    result = overview(config, summary, seeds_at_once, progress.seconds_so_far()) | summary
    result["per_class_accuracy"] = per_class(progress.confusions, class_names)
    with explaining_disk_errors(out):
        results.write_evaluations(out / "evaluations.csv", progress.history)
        save_confusions(out / "confusion.npz", progress.confusions, class_names)
        write_atomically(out / run_folder.RESULT, (json.dumps(result, indent=2, allow_nan=False) + "\n").encode())
    log(out, "finished", seconds=result["seconds"])
    console.print(results.table(summary))
    accuracy = results.percent(summary["final"]["accuracy"])
    wrote = f"accuracy {accuracy} after {result['steps']:,} steps; wrote {out}"
    say(console, wrote)


def method_name(config: Config) -> str:
    """The name of the last method that learns from unlabelled examples: stages after it only finetune."""
    names = [stage.method.name for stage in config.stages if stage.method.uses_unlabeled]
    return (names or [config.stages[-1].method.name])[-1]


def overview(config: Config, summary: Mapping[str, Any], seeds_at_once: int, seconds: float) -> dict[str, Any]:
    """The first entries of result.json; the accuracy is that of the final weights."""
    accuracy = summary["final"]["accuracy"]
    return {
        "method": method_name(config),
        "accuracy": accuracy["mean"],
        "std": accuracy["std"],
        "accuracies": accuracy["seeds"],
        "steps": sum(stage.steps for stage in config.stages),
        "seconds": round(seconds, 2),
        "seeds_at_once": seeds_at_once,
    }


def per_class(confusions: Confusions, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """The final weights' accuracy on each class; None for a class without test examples."""
    accuracies = {seed: per_class_accuracy(confusion) for seed, confusion in confusions.items()}
    rows: list[dict[str, Any]] = []
    for index, name in enumerate(class_names):
        by_seed = {seed: value for seed, values in accuracies.items() if (value := values[index]) is not None}
        rows.append({"class": name} | (results.spread(by_seed) if by_seed else {"mean": None}))
    return rows


def save_confusions(path: Path, confusions: Confusions, class_names: Sequence[str]) -> None:
    """Write the final weights' confusion matrices: `counts` [seed, true class, predicted class], without pickles."""
    counts = np.stack(list(confusions.values())).astype(np.int32)
    np.savez_compressed(path, counts=counts, seeds=np.array(list(confusions)), class_names=np.array(class_names))


def example_of(dataset: Dataset) -> Example:
    """Shape and type of what the network is asked about: of stored views [1 + 2 V, D], one is a point [D]."""
    shape, dtype = dataset.labeled.shape[1:], dataset.labeled.dtype
    return Example(shape[-1:], "float32") if dtype == np.float16 else Example(shape, dtype.name)


def save_weights(
    trained: Trained, config: Config, dataset: Dataset, seeds: Sequence[int], out: Path, alone: bool
) -> None:
    """Write weights.safetensors if the run has one seed (`alone`), else weights-SEED.safetensors for each seed."""
    example = example_of(dataset)
    for index, seed in enumerate(seeds):
        name = "weights.safetensors" if alone else f"weights-{seed}.safetensors"
        weights = jax.tree.map(lambda leaf, index=index: to_host(leaf[index]), trained.weights)
        if not processes.is_leader():
            continue
        new = out / f"{name}.new"
        with explaining_disk_errors(out):
            try:
                save(new, weights, to_dict(config.stage_models[-1]), dataset.class_names, example)
            except SafetensorError as error:  # its text contains the system's message
                raise OSError(errno.EIO, str(error), str(out / name)) from None
            new.replace(out / name)
