"""`metapl eval`: evaluate a finished run's weights again, on the same data, to the same numbers."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from metapl import config as configs
from metapl import data, models
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.data.splits.manifest import check_manifest
from metapl.evaluate import held_out, results
from metapl.evaluate.measures import Scores
from metapl.evaluate.results import Evaluation
from metapl.schema import ConfigError
from metapl.system.folders import where_run_began
from metapl.train.groups import groups
from metapl.train.loop import Trained, shapes
from metapl.weights import load_all

Part = Literal["test", "val"]

_WEIGHTS = re.compile(r"weights(?:-(?P<seed>[0-9]+))?\.safetensors")


class Evaluated(NamedTuple):
    """Scores of the weights, and how they compare with those that the run wrote."""

    summary: dict[str, Any]  # as in result.json
    remarks: list[str]  # sentences for the user


def evaluate(run: Path, part: Part, folders: Folders) -> Evaluated:
    """Load a run's settings, weights and data, and score the weights on one part; no file's content is executed.

    Data are looked for in `folders`, then where the run found them. Paths in the run's settings, and those of pictures
    that are read later, are relative to the folder in which the run was started.
    """
    if not run.is_dir():
        raise ConfigError(f"{run} is not the folder of a run; metapl runs lists the runs")
    config, absolute = settings(run), run.absolute()
    files = weight_files(absolute, config)
    with finding_data(run, folders) as places:
        summary, remarks = _evaluate(absolute, part, config, files, places)
    return Evaluated({"run": str(run), "part": part} | summary, remarks)


@contextmanager
def finding_data(run: Path, folders: Folders) -> Iterator[Folders]:
    """Work where the run was begun, if that folder is still there, and tell all places where its data may be."""
    with where_run_began(read_json(run / "environment.json") or {}, folders) as places:
        yield places


def _evaluate(run: Path, part: Part, config: Config, files: Mapping[int, Path], places: Folders) -> Evaluated:
    datasets = data.load(config.data, list(files), places)
    remarks = _check_data(run, datasets[0])
    _check_part(datasets[0], part)
    before = read_json(run / "result.json")
    together = _seeds_at_once(before, len(files))
    history: list[Evaluation] = []
    for group in groups(len(files), together):
        group_files, group_data = dict(list(files.items())[group]), datasets[group]
        trained = restore(config, list(group_files.values()), group_data[0])
        examined = held_out.examine(trained, config.augmentation, group_data)
        for seed, result in zip(group_files, examined, strict=True):
            history.append(Evaluation(seed, 0, 0, _scores(result, part), None))
    summary = results.summarize(history)
    return Evaluated(summary, remarks + _compare(summary["final"], before, part))


def weight_files(run: Path, config: Config) -> dict[int, Path]:
    """The final weights of each seed."""
    files: dict[int, Path] = {}
    for path in run.iterdir():
        if match := _WEIGHTS.fullmatch(path.name):
            files[int(match["seed"] or config.seed)] = path
    if files:
        return dict(sorted(files.items()))
    if any((run / "checkpoints").glob("step-*")):
        raise ConfigError(f"{run} has checkpoints but no final weights yet; metapl resume {run} finishes it")
    raise ConfigError(f"{run} has no weights.safetensors: the run did not finish")


def restore(config: Config, files: Sequence[Path], dataset: Dataset) -> Trained:
    """The last stage's network with the weights of these files, along a leading axis."""
    network = models.build(config.stage_models[-1], len(dataset.class_names))
    expected = shapes(config, network, dataset)
    weights = [load_all(file, expected) for file in files]
    return Trained(network, jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights))


def settings(run: Path) -> Config:
    """Read the settings of a run."""
    if not (run / "config.toml").is_file():
        raise ConfigError(f"{run} is not the folder of a run: it has no config.toml")
    return configs.load(str(run / "config.toml"))


def _check_data(run: Path, dataset: Dataset) -> list[str]:
    """Raise ConfigError if the data are not the run's; return a remark if that cannot be known."""
    if dataset.manifest is None:  # the data are drawn from the seed
        return []
    stored = read_json(run / "split.json")
    if stored is None:
        return [f"{run}/split.json is missing, so metapl cannot check whether these are the run's data"]
    check_manifest(stored, dataset.manifest)
    return []


def _check_part(dataset: Dataset, part: Part) -> None:
    if part == "val" and dataset.val is None:
        raise ConfigError("the data have no validation part; use --part test")
    if part == "test" and not len(dataset.test):
        raise ConfigError("the data have no test part; use --part val")


def _seeds_at_once(before: Mapping[str, Any] | None, seeds: int) -> int:
    """As many as the run trained at once: several seeds need another program, whose last bits differ."""
    together = (before or {}).get("seeds_at_once", 1)
    return together if isinstance(together, int) and 1 <= together <= seeds else 1


def _scores(examined: held_out.Examined, part: Part) -> Scores:
    scores = examined.test if part == "test" else examined.val
    assert scores is not None  # the part has been checked
    return scores


def _compare(final: Mapping[str, Any], before: Mapping[str, Any] | None, part: Part) -> list[str]:
    """Compare the scores with result.json, which has those of the test part."""
    if before is None:
        return ["no result.json to compare with: the run has not finished"]
    if part != "test":
        return []
    old = before.get("final")
    differences = {name: _difference(scores["seeds"], old, name) for name, scores in final.items()}
    if not any(differences.values()):
        return ["the same numbers as in result.json, to the last bit"]
    changed = ", ".join(name for name, value in differences.items() if value)
    largest = max(differences.values())
    return [f"{changed}: up to {largest:.2g} from result.json; rounding on another machine changes about 1e-6"]


def _difference(now: Mapping[str, float], old: Any, name: str) -> float:
    """The largest difference of a score over the seeds; infinite if result.json lacks it."""
    try:
        return float(max(abs(value - old[name]["seeds"][seed]) for seed, value in now.items()))
    except (KeyError, TypeError):
        return float("inf")


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file of the run; None if it does not exist."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} does not hold a JSON object, as a run writes it")
    return content
