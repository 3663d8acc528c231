"""Batches of pictures that do not fit in memory, decoded in parallel by grain.

Which pictures a batch holds is a function of its step (`order.Order`), so a stream can start at any step and stores
nothing. Threads, worker processes and the number of hosts change who decodes a picture, never which one comes when.
Work is handed out in slices of a batch, so that little is read ahead even if batches are large.

A picture that cannot be read ends the stream with an error that names it. Another picture in its place would make a
resumed run differ from one that was not interrupted. `metapl data check` finds such files before a run does.
"""

import functools
import gc
import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from metapl.data.loading.order import InTurn, Order
from metapl.data.reading.decode import BadImage, DataError
from metapl.data.sources.on_disk import Examples, OnDisk, Reading, read, stack
from metapl.data.sources.source import Images, InMemory
from metapl.schema import ConfigError

if TYPE_CHECKING:
    import grain

SLICE = 32  # pictures that are decoded, and sent between processes, at a time
SLICES_AHEAD = 2  # for each thread, and for each worker
WORTH_WORKERS = 20_000  # pictures; starting workers takes as long as decoding some thousands

T = TypeVar("T")
Pixels = NDArray[np.uint8]  # [B, H, W, C]
Rows = NDArray[np.int64]


class ProcessRows(NamedTuple):
    """Which rows of every batch this process reads: a batch has `total` equal blocks of rows, it reads `blocks`."""

    blocks: tuple[int, ...] = (0,)
    total: int = 1

    def of(self, rows: Rows) -> Rows:
        """Return those of a batch's rows that this process reads."""
        return rows.reshape(self.total, -1)[list(self.blocks)].reshape(-1)

    def size(self, batch_size: int) -> int:
        """Return how many rows of a batch this process reads."""
        return batch_size // self.total * len(self.blocks)


ALL_ROWS = ProcessRows()


class Take(NamedTuple):
    """Pictures, and which of them each step takes."""

    images: Images
    order: Order
    share: ProcessRows = ALL_ROWS


def stream(
    takes: Sequence[Take],
    size: int,
    reading: Reading,
    then: Callable[[int, Pixels], T],
    *,
    steps: int,
    start_step: int = 0,
) -> Generator[T]:
    """Yield `then(step, pictures)` for each step from `start_step` to `steps`, with the takes' pictures joined.

    Reading and `then` run ahead of the caller, by one batch and some slices. Close the generator to stop them.
    """
    import grain  # imported here: it takes half a second, and data in memory do not need it

    _check(takes)
    slices = _Slices(tuple(takes), size, start_step, steps, SLICE)
    threads = 1 if reading.workers else reading.threads
    decoded = grain.MapDataset.source(slices).to_iter_dataset(
        grain.ReadOptions(num_threads=threads, prefetch_buffer_size=SLICES_AHEAD * threads)
    )
    if reading.workers and not all(isinstance(take.images, InMemory) for take in takes):
        _parse_no_flags()
        # Grain gives slices to the workers in turn and takes them back in turn, which keeps the order.
        options = grain.MultiprocessingOptions(num_workers=reading.workers, per_worker_buffer_size=SLICES_AHEAD)
        decoded = decoded.mp_prefetch(options, _begin_worker)
    batches = decoded.batch(slices.per_step, batch_fn=functools.partial(_join, size))
    results = batches.map_with_index(lambda index, pictures: then(start_step + index, pictures))
    ahead = grain.experimental.ThreadPrefetchIterDataset(results, prefetch_buffer_size=1)
    return _until_closed(ahead, clean_up=reading.workers > 0)


def in_turn(examples: Examples, batch_size: int, first: int = 0) -> Iterator[NDArray[np.generic]]:
    """Yield all examples from `first` (a multiple of the batch size) on, in batches; the last one may be shorter."""
    if not isinstance(examples, OnDisk) or not len(examples):
        yield from (examples[start : start + batch_size] for start in range(first, len(examples), batch_size))
        return
    steps = math.ceil(len(examples) / batch_size)
    reading = examples.reading if len(examples) - first >= WORTH_WORKERS else examples.reading._replace(workers=0)
    take = Take(examples.images, InTurn(batch_size, len(examples)))
    pictures = stream([take], examples.size, reading, _unchanged, steps=steps, start_step=first // batch_size)
    with closing(pictures):
        yield from pictures


@dataclass(frozen=True)
class _Slices:
    """The slices of a stream's batches, by number; grain reads from it."""

    takes: tuple[Take, ...]
    size: int
    start_step: int
    steps: int
    length: int
    """The most pictures in a slice."""

    @property
    def per_step(self) -> int:
        return math.ceil(sum(take.share.size(take.order.batch_size) for take in self.takes) / self.length)

    def __len__(self) -> int:
        return (self.steps - self.start_step) * self.per_step

    def __getitem__(self, index: int) -> Pixels:
        step, place = divmod(index, self.per_step)
        rows = [take.share.of(take.order(self.start_step + step)) for take in self.takes]
        takes = np.repeat(np.arange(len(rows)), [len(rows_of_take) for rows_of_take in rows])
        part = slice(place * self.length, (place + 1) * self.length)
        wanted = zip(takes[part], np.concatenate(rows)[part], strict=True)
        return stack([read(self.takes[take].images, int(row), self.size) for take, row in wanted], self.size)


def _join(size: int, slices: Sequence[Pixels]) -> Pixels:
    return stack([picture for pictures in slices for picture in np.asarray(pictures)], size)


def _unchanged(step: int, pictures: Pixels) -> Pixels:
    del step
    return pictures


def _until_closed(results: "grain.IterDataset[T]", clean_up: bool) -> Generator[T]:
    iterator = iter(results)
    try:
        yield from iterator
    except BadImage as error:
        raise DataError(
            f"{error}; put the picture back as it was, then metapl resume continues from the last checkpoint (metapl "
            "data check lists every picture that cannot be read)"
        ) from None
    except RuntimeError as error:  # grain's message when a worker died
        if "terminated unexpectedly" not in str(error):
            raise
        raise DataError(
            "a process that reads pictures crashed or was killed, which happens when memory or /dev/shm is full; go on "
            "from the last checkpoint, with --data.workers 0 to read without such processes"
        ) from None
    finally:
        iterator.close()
        if clean_up:
            del iterator
            gc.collect()  # reference cycles in grain hold the last slices' shared memory, which would be left behind


def _parse_no_flags() -> None:
    """Mark absl's flags as parsed: grain's workers read them, and only absl's own main would parse them."""
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def _begin_worker(index: int, count: int) -> None:
    """Make a worker end when its parent ends, and not before.

    Ctrl-C and a scheduler's SIGTERM reach every process of a group. The parent then saves its work, and needs its
    workers alive for that. A parent that was killed cannot tell its workers, which would wait for it forever.
    """
    del index, count
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _check(takes: Sequence[Take]) -> None:
    if not all(len(take.images) for take in takes):
        raise ConfigError("there are no pictures to read")
    for take in takes:
        if take.order.batch_size % take.share.total:
            raise ConfigError(f"a batch of {take.order.batch_size} cannot be shared evenly by {take.share.total}")
