"""Batches from pictures that do not fit in memory, decoded in parallel by grain.

A batch is a function of (seed, step): to restart at step k is to start there (`start_step=k`), with nothing to store.
Threads, worker processes and the number of hosts change who decodes a picture, never which one comes when.

A picture that cannot be read does not end a run in the middle of the night: the next readable one after it, in the
order of the files, stands in, and its name is logged as a warning. `MAX_BAD_IN_A_ROW` in a row do end it, since
then a disk is gone rather than a picture. `metapl data check` finds such files before a run does.
"""

import functools
import logging
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import grain
import numpy as np
from absl import flags
from annotated_types import Ge
from numpy.typing import NDArray

from metapl.data import order
from metapl.data.fit import centre_square
from metapl.data.source import BadImage, Part
from metapl.schema import ConfigError

MAX_BAD_IN_A_ROW = 16
LABELED, UNLABELED = 0, 1  # numbers of the streams: each has an order of its own

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """How files are read; none of it changes which pictures come when."""

    size: Annotated[int, Ge(1)] = 224
    """Side of the square that every picture is cut and scaled to."""
    workers: Annotated[int, Ge(0)] = 0
    """Processes that decode; 0: threads of this process only. One for each core reads up to twice as fast."""
    threads: Annotated[int, Ge(1)] = 2
    """Threads that decode, in each worker or, without workers, in this process."""
    prefetch_batches: Annotated[int, Ge(1)] = 4
    """Batches kept ready, in each worker or, without workers, in this process."""


class Share(NamedTuple):
    """Which rows of every batch this process reads."""

    process_index: int = 0
    process_count: int = 1


ALL_ROWS = Share()


class Pictures(NamedTuple):
    """One process's rows of one batch of one stream."""

    images: NDArray[np.uint8]  # [B, size, size, C]
    labels: NDArray[np.int32]  # [B]; −1: unlabelled


class HostBatch(NamedTuple):
    """One process's rows of a batch, on the host; `types.Batch(*host_batch)` is what the device takes."""

    labeled: NDArray[np.uint8]
    labels: NDArray[np.int32]
    unlabeled: NDArray[np.uint8]


@dataclass(frozen=True)
class _Steps:
    """Random access to the steps of a stream: what grain reads from."""

    part: Part
    batch_size: int
    key: order.Words
    size: int
    share: Share
    start_step: int

    def __len__(self) -> int:
        return 2**48  # grain wants a length; no run gets there

    def __getitem__(self, index: int) -> Pictures:
        chosen = order.epoch_indices(self.key, self.start_step + index, self.batch_size, len(self.part.images))
        rows = self.batch_size // self.share.process_count
        first = self.share.process_index * rows
        read = [_read(self.part, int(i), self.size) for i in chosen[first : first + rows]]
        return Pictures(np.stack([image for image, _ in read]), np.array([label for _, label in read], np.int32))


def stream(
    part: Part,
    batch_size: int,
    seed: int,
    stream_number: int,
    reading: Reading,
    *,
    start_step: int = 0,
    share: Share = ALL_ROWS,
) -> Generator[Pictures]:
    """Yield a part's batches from `start_step` on, without end; `batch_size` counts all processes' rows.

    Close the iterator (or drop it) to stop its threads and workers.
    """
    _check(part, batch_size, share)
    steps = _Steps(part, batch_size, order.words(seed, stream_number), reading.size, share, start_step)
    batches = grain.MapDataset.source(steps).to_iter_dataset(
        grain.ReadOptions(
            num_threads=reading.threads, prefetch_buffer_size=max(reading.prefetch_batches, reading.threads)
        )
    )
    if reading.workers:
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()  # grain's workers ask absl's flags, which only absl's own main would parse
        # Grain deals whole batches out to the workers in turn and takes them back in turn: the order stays.
        batches = batches.mp_prefetch(
            grain.MultiprocessingOptions(num_workers=reading.workers, per_worker_buffer_size=reading.prefetch_batches)
        )
    return _until_closed(batches)


def batches(
    labeled: Part,
    unlabeled: Part,
    sizes: tuple[int, int],
    seed: int,
    reading: Reading,
    *,
    start_step: int = 0,
    share: Share = ALL_ROWS,
) -> Generator[HostBatch]:
    """Yield the labelled and the unlabelled stream side by side; `sizes` are their batch sizes."""
    open_stream = functools.partial(stream, seed=seed, reading=reading, start_step=start_step, share=share)
    with (
        closing(open_stream(labeled, sizes[0], stream_number=LABELED)) as first,
        closing(open_stream(unlabeled, sizes[1], stream_number=UNLABELED)) as second,
    ):
        for some, others in zip(first, second, strict=True):
            yield HostBatch(some.images, some.labels, others.images)


def _until_closed(batches: "grain.IterDataset[Pictures]") -> Generator[Pictures]:
    iterator = iter(batches)
    try:
        yield from iterator
    finally:
        iterator.close()


def _read(part: Part, index: int, size: int) -> tuple[NDArray[np.uint8], np.int32]:
    """One picture and its label, or those of the next readable one: the same replacement every time."""
    total = len(part.images)
    for attempt in range(MAX_BAD_IN_A_ROW):
        at = (index + attempt) % total
        try:
            return centre_square(part.images[at], size), part.labels[at]
        except BadImage as error:
            _warn_once(str(error))
    raise ConfigError(
        f"{MAX_BAD_IN_A_ROW} pictures in a row cannot be read, the first is {part.images.name(index)}; "
        "is the disk still there? metapl data check lists every bad file"
    )


@functools.lru_cache(maxsize=10_000)
def _warn_once(text: str) -> None:
    log.warning("%s: cannot be read; the next picture after it stands in", text)


def _check(part: Part, batch_size: int, share: Share) -> None:
    if not len(part.images):
        raise ConfigError("there are no pictures to read")
    if not 0 <= share.process_index < share.process_count:
        raise ConfigError(f"process {share.process_index} is not one of {share.process_count}")
    if batch_size % share.process_count:
        raise ConfigError(f"a batch of {batch_size} cannot be shared evenly by {share.process_count} processes")
