"""Write a run of a network that was put together from an encoder and heads, trained elsewhere (models/assemble.py).

The folder has what every finished run has, so that `eval`, `predict`, `export`, `report` and `serve` take it.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console

from metapl import models
from metapl.config import Config
from metapl.data.reading.files import Folders
from metapl.data.sources.dataset import Dataset
from metapl.evaluate.measures import Logits, confusion, score
from metapl.evaluate.results import Evaluation
from metapl.models.assemble import Encoder, Head, assemble
from metapl.runs import journal, run_folder
from metapl.runs.result import save_weights, write_result
from metapl.runs.run_folder import RunSettings
from metapl.runs.saver import Progress
from metapl.runs.work import examiner
from metapl.schema import validate
from metapl.system.lock import locked
from metapl.train.loop import Trained
from metapl.types import Weights


def write_run(
    out: Path,
    config: Config,
    encoder: Encoder,
    heads: Sequence[Head],
    dataset: Dataset,
    console: Console,
    folders: Folders = (),
    test: Logits | None = None,
) -> None:
    """Write a finished run into the folder `out`, and evaluate it on the dataset's test and val pictures.

    If its logits for the `test` pictures are known, from stored features, no picture is read for that. `config` has
    the pictures as data, and the stages that trained the heads; its model is replaced. An unfinished folder of a call
    that was killed is written again; a finished one stays as it is.
    """
    if (out / run_folder.RESULT).is_file():
        return
    config, weights = assembled_settings(config, encoder, heads)
    trained = Trained(models.build(config.model, len(dataset.class_names)), jax.tree.map(_as_one_seed, weights))
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        run_folder.write(out, RunSettings(config, (config.seed,), 1, folders), dataset.manifest)
        (out / journal.FILE).touch()
        progress = Progress()
        last = len(config.stages) - 1, config.stages[-1].steps
        if test is None:
            examiner(config, [config.seed], [dataset], progress)(*last, trained)
        else:
            scores = score(test, dataset.test_labels, dataset.test_real)
            progress.history.append(Evaluation(config.seed, *last, scores, None))
            progress.confusions[config.seed] = confusion(test, dataset.test_labels)
        save_weights(trained, config, dataset, [config.seed], out, alone=True)
        write_result(out, config, progress, dataset.class_names, 1, console)


def assembled_settings(config: Config, encoder: Encoder, heads: Sequence[Head]) -> tuple[Config, Weights]:
    """The settings of the whole network's run, and its weights."""
    model, weights = assemble(encoder, heads)
    view = dataclasses.replace(config.augmentation, mean=encoder.mean, std=encoder.std)
    config = dataclasses.replace(config, model=model, augmentation=view, init_from="")
    validate(config)
    return config, weights


def _as_one_seed(leaf: jax.Array) -> jax.Array:
    return jnp.asarray(leaf)[None]
