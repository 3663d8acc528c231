"""How many examples a network sees at once outside training.

One rule bounds the memory that activations take: at most so many examples, and at most so many pixels, over all seeds.
The numbers differ between the callers, because the last bits of a matrix product depend on the size of the batch:
evaluating a run again must give the results that it wrote, to the last bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import Augmentation
from metapl.data.loading.files_loader import in_turn
from metapl.data.sources.on_disk import Examples, OnDisk
from metapl.types import Network

Rows = NDArray[np.generic]

FEW = 16  # the size of the batches that hold the rest, by the rule "few"


class BatchRule(NamedTuple):
    """How examples are cut into batches."""

    examples: int  # at most, in a batch
    pixels: int | None  # at most, in a batch, over all seeds; None: no limit
    rest: Literal["filled", "short", "few"]
    """What happens if the last batch is not full.

    filled: its last example is repeated, so that one compiled program serves all batches.
    short: it is shorter, and is compiled separately.
    few: batches of 16 hold the rest, and a batch of 1 a single example; so there are at most three programs.
    """


# 2,048 pictures of 32², 41 of 224², 8 of 512².
EVALUATION = BatchRule(2048, 2**21, "filled")
STORED_PREDICTIONS = BatchRule(2000, 2**21, "short")
# From one picture that someone waits for to a folder of a million: 256 pictures of 64², 20 of 224².
PREDICTION = BatchRule(256, 2**20, "few")
# One size for any number of examples: what is predicted for one does not depend on the others, as scikit-learn asks.
ESTIMATOR = BatchRule(128, None, "filled")


def most_at_once(
    rule: BatchRule, shape: Sequence[int], augmentation: Augmentation, network: Network, seeds: int = 1
) -> int:
    """How many examples of this shape, (height, width, channels) or (features,), may be in a batch."""
    pixels = 1
    if len(shape) == 3:
        height, width = max(tuple(shape[:2]), (augmentation.size, augmentation.size), key=math.prod)
        enlarged = max(1.0, network.scaled_to / min(height, width))
        pixels = math.ceil(height * width * enlarged**2)
    limit = rule.examples if rule.pixels is None else min(rule.examples, rule.pixels // (pixels * seeds))
    return max(1, limit)


def even_size(count: int, most: int, devices: int = 1) -> int:
    """How large batches of one size are that need little filling up; a device takes an equal part, at most `most`."""
    return math.ceil(count / math.ceil(count / (most * devices)) / devices) * devices


def sizes(rule: BatchRule, count: int, most: int) -> list[int]:
    """The sizes of the batches that hold `count` examples; only the last batch may be larger than its examples."""
    result = []
    while count > 0:
        size = most
        if rule.rest == "short":
            size = min(most, count)
        if rule.rest == "few":
            size = 1 if count == 1 else most if 2 * count > most else min(FEW, most)
        result.append(size)
        count -= size
    return result


def in_batches(
    compute: Callable[[Rows], Rows], examples: Sequence[Examples], sizes: Sequence[int], first: int = 0
) -> Iterator[Rows]:
    """Yield `compute(batch)` for batches of these sizes, [..., B, C], without the rows that only fill a batch up.

    Each seed has its own `examples`, [R, B, ...], or all share the only ones, [B, ...]. Batches before row `first`,
    with which a batch must begin, are left out. Pictures on disk are read ahead; all sizes but the last must then be
    equal.
    """
    total = len(examples[0])
    spans = [span for span in pairwise(accumulate(sizes, initial=0)) if span[0] >= first]
    batches = zip(*(_read(part, spans, sizes[0] if sizes else 1) for part in examples), strict=True)
    for (start, end), parts in zip(spans, batches, strict=True):
        filled = [_filled_up(rows, end - start) for rows in parts]
        yield compute(filled[0] if len(filled) == 1 else np.stack(filled))[..., : total - start, :]


def _read(examples: Examples, spans: Sequence[tuple[int, int]], size: int) -> Iterator[Rows]:
    if isinstance(examples, OnDisk):
        yield from in_turn(examples, size, spans[0][0] if spans else len(examples))
    else:
        yield from (examples[start:end] for start, end in spans)


def _filled_up(rows: Rows, size: int) -> Rows:
    """Repeat the last row until there are `size`."""
    return rows if len(rows) == size else np.concatenate([rows, rows[-1:].repeat(size - len(rows), 0)])
