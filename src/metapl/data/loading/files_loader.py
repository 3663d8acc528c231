"""Batches of pictures that do not fit in memory, decoded in parallel by grain.

Which pictures a batch holds is a function of its step (`order.Order`): to restart at step k is to start there, with
nothing to store. Threads, worker processes and the number of hosts change who decodes a picture, never which one comes
when. Work is dealt out in slices of a batch, so that what is read ahead stays small however large the batches are.

A picture that cannot be read ends the stream with its name: with another in its place, a run that was resumed would no
longer be the run that was not. `metapl data check` finds such files before a run does.
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

SLICE = 32  # pictures that are decoded, and sent from one process to another, at a time
SLICES_AHEAD = 2  # for each thread, and for each worker
WORTH_WORKERS = 20_000  # pictures: to start workers takes as long as to decode some thousands

T = TypeVar("T")
Pixels = NDArray[np.uint8]  # [B, H, W, C]
Rows = NDArray[np.int64]


class Share(NamedTuple):
    """Which rows of every batch this process reads: some of so many equal parts."""

    parts: tuple[int, ...] = (0,)
    total: int = 1

    def of(self, rows: Rows) -> Rows:
        """This process's part of a batch's rows."""
        return rows.reshape(self.total, -1)[list(self.parts)].reshape(-1)

    def size(self, batch_size: int) -> int:
        """How many rows it is."""
        return batch_size // self.total * len(self.parts)


ALL_ROWS = Share()


class Take(NamedTuple):
    """Some pictures, and which of them each step takes."""

    images: Images
    order: Order
    share: Share = ALL_ROWS


def stream(
    takes: Sequence[Take],
    size: int,
    reading: Reading,
    then: Callable[[int, Pixels], T],
    *,
    steps: int,
    start_step: int = 0,
) -> Generator[T]:
    """Yield `then(step, pictures)` for each step from `start_step` to `steps`: the takes' pictures one after the other.

    Reading and `then` run ahead of who asks, by one batch and some slices. Close the generator to stop them.
    """
    import grain  # here: it takes half a second, which those whose data are in memory need not wait

    _check(takes)
    slices = _Slices(tuple(takes), size, start_step, steps, SLICE)
    threads = 1 if reading.workers else reading.threads
    pieces = grain.MapDataset.source(slices).to_iter_dataset(
        grain.ReadOptions(num_threads=threads, prefetch_buffer_size=SLICES_AHEAD * threads)
    )
    if reading.workers and not all(isinstance(take.images, InMemory) for take in takes):
        _parse_no_flags()
        # Grain deals the slices out to the workers in turn and takes them back in turn: the order stays.
        options = grain.MultiprocessingOptions(num_workers=reading.workers, per_worker_buffer_size=SLICES_AHEAD)
        pieces = pieces.mp_prefetch(options, _begin_worker)
    batches = pieces.batch(slices.in_a_step, batch_fn=functools.partial(_join, size))
    results = batches.map_with_index(lambda index, pictures: then(start_step + index, pictures))
    ahead = grain.experimental.ThreadPrefetchIterDataset(results, prefetch_buffer_size=1)
    return _until_closed(ahead, clean_up=reading.workers > 0)


def in_turn(examples: Examples, batch_size: int, first: int = 0) -> Iterator[NDArray[np.generic]]:
    """All examples from a multiple of the batch size on, a batch at a time, the last one as short as it is."""
    if not isinstance(examples, OnDisk) or not len(examples):
        yield from (examples[start : start + batch_size] for start in range(first, len(examples), batch_size))
        return
    steps = math.ceil(len(examples) / batch_size)
    reading = examples.reading if len(examples) - first >= WORTH_WORKERS else examples.reading._replace(workers=0)
    take = Take(examples.images, InTurn(batch_size, len(examples)))
    pictures = stream([take], examples.size, reading, _as_they_are, steps=steps, start_step=first // batch_size)
    with closing(pictures):
        yield from pictures


@dataclass(frozen=True)
class _Slices:
    """Random access to the slices of a stream's batches: what grain reads from."""

    takes: tuple[Take, ...]
    size: int
    start_step: int
    steps: int
    length: int
    """Pictures of a slice, if its batch has so many left."""

    @property
    def in_a_step(self) -> int:
        return math.ceil(sum(take.share.size(take.order.batch_size) for take in self.takes) / self.length)

    def __len__(self) -> int:
        return (self.steps - self.start_step) * self.in_a_step

    def __getitem__(self, index: int) -> Pixels:
        step, place = divmod(index, self.in_a_step)
        rows = [take.share.of(take.order(self.start_step + step)) for take in self.takes]
        owners = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        own = slice(place * self.length, (place + 1) * self.length)
        wanted = zip(owners[own], np.concatenate(rows)[own], strict=True)
        return stack([read(self.takes[owner].images, int(row), self.size) for owner, row in wanted], self.size)


def _join(size: int, slices: Sequence[Pixels]) -> Pixels:
    return stack([picture for some in slices for picture in np.asarray(some)], size)


def _as_they_are(step: int, pictures: Pixels) -> Pixels:
    del step
    return pictures


def _until_closed(results: "grain.IterDataset[T]", clean_up: bool) -> Generator[T]:
    iterator = iter(results)
    try:
        yield from iterator
    except BadImage as error:
        raise DataError(
            f"{error}; it was to be read now: put the picture back as it was, then go on from the last checkpoint "
            "(metapl data check lists every picture that cannot be read)"
        ) from None
    except RuntimeError as error:  # what grain says of a worker that died
        if "terminated unexpectedly" not in str(error):
            raise
        raise DataError(
            "a process that reads pictures was killed or crashed, as the system does when memory or /dev/shm is full; "
            "go on from the last checkpoint, with --data.workers 0 to read without such processes"
        ) from None
    finally:
        iterator.close()
        if clean_up:
            del iterator
            gc.collect()  # grain's circles hold the last slices' shared memory, which would be left at the end


def _parse_no_flags() -> None:
    """Grain's workers ask absl's flags, which only absl's own main would parse."""
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def _begin_worker(index: int, count: int) -> None:
    """Make a worker end when its parent does, and not before.

    Ctrl-C and a scheduler's SIGTERM reach every process of a group: the parent saves its work then, for which it needs
    no dead workers. A parent that was killed cannot tell its workers, which would wait for it for ever.
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
