"""What a fixed network says of each training example: computed once, stored as probabilities, and the network can go.

Noisy Student and Reduced MPL learn from a large teacher that no longer changes. Its softmax over the whole training
set (the eval view, no noise) goes to a float16 .npy [N, C], the format that `metapl data select` reads. While it grows
it is called .npy.partial, so that a file called .npy is a whole one; beside it a .json says which weights and examples
it is of, and how many rows are done: who asks again goes on from there. Files of other weights are never overwritten.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation, eval_view, is_picture
from metapl.data.audit.selection import Rules, select
from metapl.data.loading import loader
from metapl.data.loading.feed import PredictionsOnDisk, StoredPredictions
from metapl.data.loading.files_loader import in_turn
from metapl.data.reading import probabilities
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples, OnDisk
from metapl.data.splits import manifest
from metapl.schema import ConfigError, to_dict
from metapl.system import processes
from metapl.system.sharding import SINGLE, Layout, as_networks_see, by_examples, to_host
from metapl.types import Array, Keep, ModelConfig, Network, Weights

# Examples answered at a time bound the memory that activations take: 2,000 pictures of 32², 41 of 224².
MAX_EXAMPLES, MAX_PIXELS = 2000, 2**21

Stored = NDArray[np.float16]
Origin = dict[str, Any]
Some = NDArray[np.generic]
Answer = Callable[[Weights, int, Array], Array]  # (weights, which seed's, examples) -> [N, C] float16
Count = Callable[[int], None]  # rows done so far
Counting = Callable[[str, int], Count]  # (what is counted, how many there will be)


class Teacher(NamedTuple):
    """A trained network of each seed, and all else that its predictions depend on."""

    model: ModelConfig
    network: Network
    weights: Weights  # with a leading axis for the seeds
    augmentation: Augmentation
    layout: Layout = SINGLE


def predict(
    teacher: Teacher, seeds: Sequence[int], datasets: Sequence[Dataset], keep: Keep, stem: Path, counting: Counting
) -> StoredPredictions:
    """Ask each seed's network about its training set; the files are STEM-SEED.npy and STEM-SEED-labeled.npy."""
    answer = answer_function(teacher)
    for index, (seed, dataset) in enumerate(zip(seeds, datasets, strict=True)):
        path, labeled_path = _files(stem, seed)
        count = counting(f"distributions {path.stem}", len(dataset.unlabeled))
        precompute(labeled_path, teacher, index, dataset.labeled, answer)
        precompute(path, teacher, index, dataset.unlabeled, answer, count)
    return read(seeds, keep, stem, to_device=not datasets[0].from_files)


def read(seeds: Sequence[int], keep: Keep, stem: Path, to_device: bool) -> StoredPredictions:
    """Read the predictions for these seeds; where pictures stay on disk, so do they."""
    told = []
    for seed in seeds:
        path, labeled_path = _files(stem, seed)
        labeled, unlabeled = (np.load(file, mmap_mode="r", allow_pickle=False) for file in (labeled_path, path))
        told.append((labeled, unlabeled, kept_rows(path, keep, seed)))
    if not to_device:
        return PredictionsOnDisk(*told[0])
    return loader.PredictionsOnDevice(*jax.tree.map(lambda *parts: jnp.stack(parts), *told))


def checksum(predictions: StoredPredictions) -> str:
    """CRC of the predictions: a stage that began with these must not go on with others."""
    value = 0
    for leaf in jax.tree.leaves(predictions):
        for block in blocks(np.asarray(leaf)):
            value = google_crc32c.extend(value, block.tobytes())
    return f"{value:08x}"


def files(seeds: Sequence[int], stem: Path) -> list[Path]:
    """All files of these seeds."""
    return [file for seed in seeds for file in _files(stem, seed)]


def _files(stem: Path, seed: int) -> tuple[Path, Path]:
    """Where the predictions about unlabelled and about labelled examples are."""
    return stem.with_name(f"{stem.name}-{seed}.npy"), stem.with_name(f"{stem.name}-{seed}-labeled.npy")


def answer_function(teacher: Teacher) -> Answer:
    """Make softmax(T(x)) of stored examples, as float16, for one of the seeds; compiled once for all of them."""
    view = eval_view(teacher.augmentation)

    def answer(weights: Weights, index: int, examples: Array) -> Array:
        # Sliced in here, one seed's weights are not copied: the network may fill half of the memory.
        params, stats = jax.tree.map(lambda leaf: leaf[index] if len(leaf) > 1 else leaf[0], weights)
        seen = as_networks_see(view(by_examples(examples)))
        logits, _ = teacher.network.apply(params, stats, seen, train=False)
        return teacher.layout.replicate(jax.nn.softmax(logits.astype(jnp.float32)).astype(jnp.float16))

    return jax.jit(teacher.layout(answer))


def precompute(
    path: Path,
    teacher: Teacher,
    index: int,
    examples: Examples,
    answer: Answer,
    count: Count = lambda rows: None,
) -> Stored:
    """Compute what is not on disk yet of one seed's predictions, and map the file into memory: [N, C]."""
    origin, classes = origin_of(teacher, index, examples), _classes(teacher, examples)
    if processes.leader_decides(path.exists):
        _refuse_another(path, origin)
        count(len(examples))
    else:
        size = batch_size(examples, teacher.augmentation)
        _compute(path, origin, partial(_ask, teacher, index, answer), examples, classes, size, count)
    return _mapped(path, (len(examples), classes))


def _ask(teacher: Teacher, index: int, answer: Answer, examples: Some) -> Some:
    return np.asarray(answer(teacher.weights, index, teacher.layout.shard_rows(examples)))


def _classes(teacher: Teacher, examples: Examples) -> int:
    """How many classes the network tells apart; it is not asked anything."""
    one = jax.ShapeDtypeStruct((1, *examples.shape[1:]), examples.dtype)
    return int(jax.eval_shape(answer_function(teacher), teacher.weights, 0, one).shape[1])


def batch_size(examples: Examples, augmentation: Augmentation) -> int:
    """How many examples are answered at a time."""
    pixels = max(math.prod(examples.shape[1:3]), augmentation.size**2) if is_picture(examples) else 1
    return max(1, min(MAX_EXAMPLES, MAX_PIXELS // pixels))


def _compute(
    path: Path,
    origin: Origin,
    answer: Callable[[Some], Some],
    examples: Examples,
    classes: int,
    size: int,
    count: Count,
) -> None:
    """Fill the file batch by batch, from where it was left; of several processes all answer, and one writes."""
    partial = path.with_name(path.name + ".partial")
    shape = len(examples), classes
    first = processes.leader_decides(lambda: _rows_done(path, partial, origin, shape))
    count(first)
    rows = np.load(partial, mmap_mode="r+") if first and processes.is_leader() else None
    first -= first % size  # left by a program with another size, rows between may be answered twice
    for start, asked in zip(range(first, len(examples), size), in_turn(examples, size, first), strict=True):
        end, some = start + len(asked), answer(asked)
        if processes.is_leader():
            if rows is None:
                _note(path, origin, 0)
                rows = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
            rows[start:end] = some
            rows.flush()  # rows first, then the note that they are there: a crash between the two costs one batch
            _note(path, origin, end)
        count(end)
    processes.leader_decides(lambda: str(partial.replace(path)))


def kept_rows(path: Path, keep: Keep, seed: int) -> NDArray[np.int32] | None:
    """Rows of a stored file that are learnt from, repeats included; None if all are.

    Their number depends on the settings alone, so that many seeds can train at once: as many as per_class for all
    classes, or without it as many as there were. What is missing (nobody may be of some class) is repeated from all.
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
            f"keep.threshold {keep.threshold:g} leaves no unlabelled example: the teacher is nowhere so sure"
        )
    times, rest = divmod(wanted, len(rows))
    some = rows[np.arange(rest) * len(rows) // max(rest, 1)]  # at equal distances: rows are sorted by class
    return np.concatenate([np.tile(rows, times), some]).astype(np.int32)


def origin_of(teacher: Teacher, index: int, examples: Examples) -> Origin:
    """All that the predictions are a function of, as a note that two equal files share."""
    weights = hashlib.sha256()
    for place, leaf in jax.tree_util.tree_leaves_with_path(teacher.weights):
        weights.update(f"{jax.tree_util.keystr(place)} {leaf.dtype} {leaf.shape[1:]}\n".encode())
        weights.update(np.ascontiguousarray(to_host(leaf[index])).data)
    asked = hashlib.sha256(f"{examples.dtype} {examples.shape}\n".encode())
    for block in manifest.bytes_of_images(examples.images) if isinstance(examples, OnDisk) else blocks(examples):
        asked.update(block)
    seen = {key: to_dict(teacher.augmentation)[key] for key in ("size", "centre", "mean", "std")}
    return {
        "model": to_dict(teacher.model),
        "view": seen,
        "weights_sha256": weights.hexdigest(),
        "examples_sha256": asked.hexdigest(),
        "rows": len(examples),
    }


def blocks(examples: NDArray[np.generic]) -> Iterator[memoryview]:
    """All of an array's bytes."""
    for start in range(0, len(examples), MAX_EXAMPLES):
        yield np.ascontiguousarray(examples[start : start + MAX_EXAMPLES]).data


def _rows_done(path: Path, partial: Path, origin: Origin, shape: tuple[int, int]) -> int:
    """How many rows an earlier session has left, of the file that we would make and that can be gone on with."""
    rows = _refuse_another(path, origin) if partial.exists() else 0
    if rows:
        _mapped(partial, shape)
    return rows


def _mapped(path: Path, shape: tuple[int, int]) -> Stored:
    """Map a file into memory; one that was cut short or exchanged is the user's to look at, and not overwritten."""
    try:
        stored: Stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise ConfigError(f"{path} is damaged: it holds no whole array; move it away, and it is made again") from None
    if stored.dtype != np.float16 or stored.shape != shape:
        found = f"{stored.dtype} {list(stored.shape)} where float16 {list(shape)} was stored"
        raise ConfigError(f"{path} was exchanged: it holds {found}; move it away, and it is made again")
    return stored


def _refuse_another(path: Path, origin: Origin) -> int:
    """How many rows are done of a file that is there, if it is the file that we would make."""
    try:
        noted = json.loads(_note_path(path).read_text("utf-8"))
        rows, same = int(noted.pop("done")), noted == json.loads(json.dumps(origin))
        if not 0 <= rows <= origin["rows"]:
            raise ValueError(rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path}: nothing beside it says whose predictions it holds; move it away") from None
    if not same:
        raise ConfigError(f"{path} holds another network's predictions, or predictions to other examples; move it away")
    return rows


def _note(path: Path, origin: Origin, done: int) -> None:
    """Replace the note as a whole: whoever reads it, after a crash too, sees the old one or the new one."""
    new = path.with_name(path.name + ".json.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps({**origin, "done": done}, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(_note_path(path))


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")
