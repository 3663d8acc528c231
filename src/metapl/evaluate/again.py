"""`metapl eval`: ask a finished run's weights again, about the same data, and get the same numbers."""

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
from metapl.types import Weights
from metapl.weights import WeightsError, load

Part = Literal["test", "val"]

_WEIGHTS = re.compile(r"weights(?:-(?P<seed>[0-9]+))?\.safetensors")


class Again(NamedTuple):
    """What the weights say now, and how that compares with what the run wrote."""

    summary: dict[str, Any]  # as in result.json
    remarks: list[str]  # sentences for the user


def evaluate_run(run: Path, part: Part, folders: Folders) -> Again:
    """Load a run's settings, weights and data, and score the weights on one part; no file's content is executed.

    Looks for data where the user says, then where the run found them; paths in its settings are relative to where it
    began, also those of pictures that are read when their turn comes.
    """
    if not run.is_dir():
        raise ConfigError(f"{run} is not the folder of a run")
    config, there = settings(run), run.absolute()
    files = weight_files(there, config)
    with finding_data(run, folders) as places:
        summary, remarks = _evaluate(there, part, config, files, places)
    return Again({"run": str(run), "part": part} | summary, remarks)


@contextmanager
def finding_data(run: Path, folders: Folders) -> Iterator[Folders]:
    """Work where the run was begun, if that folder is still there, and tell all places where its data may be."""
    with where_run_began(read_json(run / "environment.json") or {}, folders) as places:
        yield places


def _evaluate(run: Path, part: Part, config: Config, files: Mapping[int, Path], places: Folders) -> Again:
    datasets = data.load(config.data, list(files), places)
    remarks = _check_data(run, datasets[0])
    _check_part(datasets[0], part)
    before = read_json(run / "result.json")
    together = _seeds_at_once(before, len(files))
    history: list[Evaluation] = []
    for group in groups(len(files), together):
        own, some = dict(list(files.items())[group]), datasets[group]
        trained = restore(config, list(own.values()), some[0])
        found = held_out.examine(trained, config.augmentation, some)
        for seed, one in zip(own, found, strict=True):
            history.append(Evaluation(seed, 0, 0, _scores(one, part), None))
    summary = results.summarize(history)
    return Again(summary, remarks + _compare(summary["final"], before, part))


def weight_files(run: Path, config: Config) -> dict[int, Path]:
    """The final weights of each seed."""
    found: dict[int, Path] = {}
    for path in run.iterdir():
        if match := _WEIGHTS.fullmatch(path.name):
            found[int(match["seed"] or config.seed)] = path
    if found:
        return dict(sorted(found.items()))
    if any((run / "checkpoints").glob("step-*")):
        raise ConfigError(f"{run} has checkpoints but no final weights yet; metapl resume {run} takes it to its end")
    raise ConfigError(f"{run} has no weights.safetensors: the run did not come to its end")


def restore(config: Config, files: Sequence[Path], dataset: Dataset) -> Trained:
    """The last stage's network with the weights of these files, along a leading axis."""
    network = models.build(config.stage_models[-1], len(dataset.class_names))
    expected = shapes(config, network, dataset)
    weights = [own_weights(file, expected) for file in files]
    return Trained(network, jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights))


def own_weights(file: Path, expected: Weights) -> Weights:
    """Take a run's own weights: nothing may be missing, not even the classifier, which `init_from` would forgive."""
    try:
        weights, missing = load(file, expected)
    except WeightsError as error:
        raise ConfigError(error.problem) from None
    if missing:
        raise ConfigError(f"{file} is of a network for another number of classes than the data have")
    return weights


def settings(run: Path) -> Config:
    """What a run was told to do."""
    if not (run / "config.toml").is_file():
        raise ConfigError(f"{run} is not the folder of a run: it has no config.toml")
    return configs.load(str(run / "config.toml"))


def _check_data(run: Path, dataset: Dataset) -> list[str]:
    """Refuse data that are not the run's; say so where nobody can know."""
    if dataset.manifest is None:  # drawn from the seed
        return []
    stored = read_json(run / "split.json")
    if stored is None:
        return [f"{run}/split.json is missing: whether these are the run's data is not known"]
    check_manifest(stored, dataset.manifest)
    return []


def _check_part(dataset: Dataset, part: Part) -> None:
    if part == "val" and dataset.val is None:
        raise ConfigError("the data have no validation part; --part test asks about the test part")
    if part == "test" and not len(dataset.test):
        raise ConfigError("the data have no test part; --part val asks about the validation part")


def _seeds_at_once(before: Mapping[str, Any] | None, seeds: int) -> int:
    """As the run did: seeds in company go through another program, whose last bits differ."""
    together = (before or {}).get("seeds_at_once", 1)
    return together if isinstance(together, int) and 1 <= together <= seeds else 1


def _scores(found: held_out.Examined, part: Part) -> Scores:
    scores = found.test if part == "test" else found.val
    assert scores is not None  # the part has been checked
    return scores


def _compare(final: Mapping[str, Any], before: Mapping[str, Any] | None, part: Part) -> list[str]:
    """Hold the numbers against result.json, which tells of the test part."""
    if before is None:
        return ["there is no result.json to compare with: the run has not finished"]
    if part != "test":
        return []
    old = before.get("final")
    far = {name: _difference(scores["seeds"], old, name) for name, scores in final.items()}
    if not any(far.values()):
        return ["the same numbers as in result.json, to the last bit"]
    changed = ", ".join(name for name, value in far.items() if value)
    return [f"{changed}: up to {max(far.values()):.2g} from result.json; another machine's rounding is about 1e-6"]


def _difference(now: Mapping[str, float], old: Any, name: str) -> float:
    """How far one score of any seed is from what was written; what was not written is infinitely far."""
    try:
        return float(max(abs(value - old[name]["seeds"][seed]) for seed, value in now.items()))
    except (KeyError, TypeError):
        return float("inf")


def read_json(path: Path) -> dict[str, Any] | None:
    """A file of the run; None where there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold what a run writes")
    return found
