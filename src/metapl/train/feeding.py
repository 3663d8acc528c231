"""Where a stage's batches come from: data that are on the device, or files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from metapl.config import Config, Stage
from metapl.data.loading import feed as feeds
from metapl.data.loading import loader
from metapl.data.loading.feed import Feed, PredictionsOnDisk, Sampling, StoredPredictions
from metapl.data.sources.dataset import Dataset
from metapl.schema import ConfigError
from metapl.system.sharding import SINGLE, Layout
from metapl.train.program import Program
from metapl.types import Array


@contextmanager
def feeding(
    stage: Stage,
    dataset: Dataset,
    resident: loader.Resident | None,
    predictions: StoredPredictions | None,
    keys: Array,
    first: int,
    layout: Layout = SINGLE,
) -> Iterator[Feed]:
    """Feed a stage from step `first` on: from `resident`, the data on the device, or else from files."""
    if resident is not None:
        assert not isinstance(predictions, PredictionsOnDisk)
        yield feeds.resident(resident, layout.put(predictions))
        return
    assert not isinstance(predictions, loader.PredictionsOnDevice)
    dataset = feeds.labeled_only(dataset) if stage.unlabeled == "labeled" else dataset
    _, order_key, _ = jax.random.split(keys[0], 3)
    sampling = Sampling(
        stage.labeled_batch,
        stage.unlabeled_batch,
        stage.steps,
        uses_unlabeled=stage.method.uses_unlabeled,
        balanced=stage.labeled_sampling == "balanced",
        indices=stage.method.remembers_examples,
    )
    with feeds.from_files(dataset, order_key, sampling, first, predictions, layout) as feed:
        yield feed


def on_device(
    config: Config, program: Program, seeds: Sequence[int], datasets: Sequence[Dataset]
) -> loader.Resident | None:
    """Put the training data on the device; None if they are fed from files."""
    if datasets[0].from_files:
        if len(seeds) > 1:
            raise ConfigError(
                "seeds whose pictures are fed from files train one after another, not at once: give --seeds-at-once 1"
            )
        return None
    balanced = any(stage.labeled_sampling == "balanced" for stage in config.stages)
    return program.layout.put(to_device(datasets, program.own_data, balanced))


def to_device(datasets: Sequence[Dataset], own_data: bool, balanced: bool = False) -> loader.Resident:
    """Put the training data on the device: once if all seeds share it, else stacked."""
    if not own_data:
        return loader.resident(datasets[0], balanced)
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(loader.resident(dataset, balanced) for dataset in datasets)
    )
