"""What a fixed network predicts for each training example: computed once and stored, then the network is freed.

Noisy Student and Reduced MPL learn from a large teacher that no longer changes. Its probabilities for the whole
training set (the eval view, no noise) go to files that a resumed run continues (`inference/predictions_file.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation
from metapl.data.audit.selection import Rules, select
from metapl.data.loading import loader
from metapl.data.loading.feed import PredictionsOnDisk, StoredPredictions
from metapl.data.reading import probabilities
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples, OnDisk
from metapl.data.splits import manifest
from metapl.inference.batches import STORED_PREDICTIONS, most_at_once, sizes
from metapl.inference.forward import Forward, of_seed, width
from metapl.inference.predictions_file import Origin, PredictionsFile, Stored, weights_sha256
from metapl.schema import ConfigError, to_dict
from metapl.system import processes
from metapl.system.sharding import SINGLE, Layout
from metapl.types import Keep, ModelConfig, Network, Weights

ROWS_IN_A_BLOCK = 2000  # that are hashed at a time

Count = Callable[[int], None]  # rows done so far
Counting = Callable[[str, int], Count]  # (what is counted, how many there will be)


class Teacher(NamedTuple):
    """A trained network of each seed, and all else that its predictions depend on."""

    model: ModelConfig
    network: Network
    weights: Weights  # with a leading axis for the seeds
    augmentation: Augmentation
    layout: Layout = SINGLE

    @property
    def forward(self) -> Forward:
        """The network's probabilities, as a function of weights and examples."""
        return Forward(self.network, self.augmentation, "probabilities", layout=self.layout)


def predict(
    teacher: Teacher, seeds: Sequence[int], datasets: Sequence[Dataset], keep: Keep, stem: Path, counting: Counting
) -> StoredPredictions:
    """Compute or complete each seed's files, STEM-SEED.npy and STEM-SEED-labeled.npy, and read them."""
    for index, (seed, dataset) in enumerate(zip(seeds, datasets, strict=True)):
        path, labeled_path = _files(stem, seed)
        count = counting(path.stem, len(dataset.unlabeled))
        precompute(labeled_path, teacher, index, dataset.labeled)
        precompute(path, teacher, index, dataset.unlabeled, count)
    return read(seeds, keep, stem, to_device=not datasets[0].from_files)


def read(seeds: Sequence[int], keep: Keep, stem: Path, to_device: bool) -> StoredPredictions:
    """Read the predictions for these seeds; where pictures stay on disk, so do they."""
    of_each_seed = []
    for seed in seeds:
        path, labeled_path = _files(stem, seed)
        labeled, unlabeled = (np.load(file, mmap_mode="r", allow_pickle=False) for file in (labeled_path, path))
        of_each_seed.append((labeled, unlabeled, kept_rows(path, keep, seed)))
    if not to_device:
        return PredictionsOnDisk(*of_each_seed[0])
    return loader.PredictionsOnDevice(*jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_each_seed))


def checksum(predictions: StoredPredictions) -> str:
    """CRC of the predictions: a stage that began with these must not continue with others."""
    value = 0
    for leaf in jax.tree.leaves(predictions):
        for block in blocks(np.asarray(leaf)):
            value = google_crc32c.extend(value, block.tobytes())
    return f"{value:08x}"


def files(seeds: Sequence[int], stem: Path) -> list[Path]:
    """All files of these seeds."""
    return [file for seed in seeds for file in _files(stem, seed)]


def _files(stem: Path, seed: int) -> tuple[Path, Path]:
    """The files with the predictions for unlabelled and for labelled examples."""
    return stem.with_name(f"{stem.name}-{seed}.npy"), stem.with_name(f"{stem.name}-{seed}-labeled.npy")


def precompute(
    path: Path, teacher: Teacher, index: int, examples: Examples, count: Count = lambda rows: None
) -> Stored:
    """Compute the predictions of one seed that are not on disk yet, and map the file into memory: [N, C].

    If there are several processes, all compute, and process 0 reads and writes the file.
    """
    forward = teacher.forward
    file = PredictionsFile(path, origin_of(teacher, index, examples), _classes(teacher, examples))
    complete = processes.leader_decides(path.exists)
    first = processes.leader_decides(lambda: file.progress().rows)
    count(first)
    if not complete:
        most = most_at_once(STORED_PREDICTIONS, examples.shape[1:], teacher.augmentation, forward.network)
        first -= first % most  # rows after it, left by a version with another batch size, are computed again
        batch_sizes = sizes(STORED_PREDICTIONS, len(examples), most)
        for rows in of_seed(forward, teacher.weights, index, examples, batch_sizes, first):
            if processes.is_leader():
                file.write(first, rows)
            first += len(rows)
            count(first)
        processes.leader_decides(file.finish)
    return file.read()


def _classes(teacher: Teacher, examples: Examples) -> int:
    """How many classes the teacher tells apart; nothing is computed."""
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), teacher.weights)
    return width(teacher.forward, shapes, examples)


def kept_rows(path: Path, keep: Keep, seed: int) -> NDArray[np.int32] | None:
    """Rows of a stored file that the next stage learns from, some of them several times; None: all rows, once.

    Their number depends on the settings alone, so that several seeds can train at once: per_class for each class, or
    without per_class as many as the file has. If too few rows are kept (a class may have none), all kept rows are
    repeated.
    """
    if not keep.per_class and not keep.threshold:
        return None
    if keep.per_class:
        rules = Rules(keep.per_class, keep.threshold, keep.rank, upsample=True, seed=seed)
        chosen = select(path, rules)
        rows, wanted = np.repeat(chosen.entries.rows, chosen.copies), keep.per_class * chosen.classes
    else:
        best = np.concatenate([chunk.max(axis=1) for chunk in probabilities.chunks(path)])
        rows, wanted = np.flatnonzero(best >= np.float32(keep.threshold)), len(best)
    if not len(rows):
        raise ConfigError(
            f"keep.threshold {keep.threshold:g} leaves no unlabelled example: no prediction of the teacher is so "
            "certain; lower it"
        )
    times, rest = divmod(wanted, len(rows))
    evenly_spaced = rows[np.arange(rest) * len(rows) // max(rest, 1)]  # rows are sorted by class
    return np.concatenate([np.tile(rows, times), evenly_spaced]).astype(np.int32)


def origin_of(teacher: Teacher, index: int, examples: Examples) -> Origin:
    """All that the predictions depend on; equal for equal files."""
    content = manifest.bytes_of_images(examples.images) if isinstance(examples, OnDisk) else blocks(examples)
    settings = to_dict(teacher.augmentation)
    return {
        "model": to_dict(teacher.model),
        "view": {key: settings[key] for key in ("size", "centre", "mean", "std")},
        "weights_sha256": weights_sha256(teacher.weights, index),
        "examples_sha256": manifest.sha256(chain([f"{examples.dtype} {examples.shape}\n".encode()], content)),
        "rows": len(examples),
    }


def blocks(examples: NDArray[np.generic]) -> Iterator[memoryview]:
    """All bytes of an array."""
    for start in range(0, len(examples), ROWS_IN_A_BLOCK):
        yield np.ascontiguousarray(examples[start : start + ROWS_IN_A_BLOCK]).data
