"""Choose extra unlabelled pictures by class probabilities (Sections 3.3 and 4, Appendix E).

For each class, the K pictures of the highest probability are kept: K is 12,800 for ImageNet, 50,000 for CIFAR-10 and
35,000 for SVHN in the paper. Two readings of "for each class" are in use:
- `each_class` (UDA, and the words of Section 3.3): every class ranks all pictures; one may be kept for two classes.
- `top_class` (Noisy Student): a picture competes in its most probable class only.
Noisy Student also drops pictures below a confidence (0.3) and repeats pictures of classes that have fewer than K.
A row of zeros stands for a picture that could not be read (`metapl pseudo-label` writes it so) and is never kept.
"""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from metapl.data.audit.leave_out import LeaveOut
from metapl.data.audit.top import Entries, Rows, Top
from metapl.data.reading import probabilities
from metapl.schema import ConfigError

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Rules:
    """Which pictures are kept."""

    per_class: Annotated[int, Ge(1)] = 12_800
    """Pictures to keep for each class: the paper's K."""
    threshold: Annotated[float, Ge(0), Le(1)] = 0.0
    """Leave out pictures below this probability; Noisy Student uses 0.3."""
    rank: Literal["each_class", "top_class"] = "each_class"
    """each_class: a picture competes in every class; top_class: only in its most probable one, as in Noisy Student."""
    upsample: bool = False
    """If a class has fewer pictures than per_class, repeat them until it has as many, as Noisy Student does."""
    seed: Annotated[int, Ge(0)] = 0
    """Determines which pictures are repeated once more than others."""


DEFAULT = Rules()


class Selection(NamedTuple):
    """The kept rows, ordered by class, then by falling probability; and how many rows there were."""

    entries: Entries
    ranks: NDArray[np.int64]  # 1: the most probable of its class
    copies: NDArray[np.int64]
    rows: int
    classes: int
    below_threshold: int  # rows that have no class at or above the threshold
    unknown: int = 0  # rows of zeros: pictures that could not be read, so no network predicted them


def select(
    path: Path, rules: Rules, leave_out: LeaveOut | None = None, advance: Advance = lambda rows: None
) -> Selection:
    """Select by reading the probabilities once; memory depends on classes · per_class, not on the number of rows."""
    classes = probabilities.shape(path).classes
    top = Top(classes, rules.per_class, leave_out or _all_may_stay)
    rows = below = unknown = 0
    for chunk in probabilities.chunks(path):
        best_chances = chunk.max(axis=1)
        unknown += int(np.sum(best_chances == 0))
        below += int(np.sum((best_chances > 0) & (best_chances < np.float32(rules.threshold))))
        top.offer(_candidates(chunk, rows, top.floors, rules))
        rows += len(chunk)
        advance(len(chunk))
    best = top.best()
    counts = np.bincount(best.classes, minlength=classes)
    ranks = np.arange(len(best.rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    copies = _copies(counts, rules) if rules.upsample else np.ones(len(best.rows), np.int64)
    return Selection(best, ranks, copies, rows, classes, below, unknown)


def write(selection: Selection, names: Iterator[str], rules: Rules, leave_out: LeaveOut | None, folder: Path) -> None:
    """Write selection.csv (what to train on), audit.csv (why each was kept) and summary.json.

    Rows keep their order, so that the names can be read one by one as well.
    """
    (folder / "summary.json").write_text(json.dumps(summarize(selection, rules, leave_out), indent=2) + "\n", "utf-8")
    checked = "no look-alike in val or test" if leave_out else "not compared with val and test"
    entries = selection.entries
    with _csv(folder / "selection.csv") as chosen, _csv(folder / "audit.csv") as reasons:
        chosen.writerow(["row", "path", "class", "probability", "copies"])
        reasons.writerow(["row", "path", "class", "rank", "probability", "copies", "kept_because"])
        for i, name in _named(np.lexsort((entries.classes, entries.rows)), entries.rows, names):
            row, label, rank, copies = (int(column[i]) for column in (entries.rows, entries.classes, *selection[1:3]))
            chance = f"{entries.probabilities[i]:.6g}"
            chosen.writerow([row, name, label, chance, copies])
            reasons.writerow([row, name, label, rank, chance, copies, f"{_why(rank, label, rules)}; {checked}"])


@contextmanager
def _csv(path: Path) -> Iterator[Any]:
    with path.open("w", newline="", encoding="utf-8") as file:
        yield csv.writer(file)


def summarize(selection: Selection, rules: Rules, leave_out: LeaveOut | None) -> dict[str, Any]:
    """The content of summary.json: rows read, kept, and left out by reason; kept rows of each class."""
    entries = selection.entries
    distinct = len(np.unique(entries.rows))
    look_alikes, unreadable = (leave_out.look_alikes, leave_out.unreadable) if leave_out else (0, 0)
    unreadable += selection.unknown
    beyond = selection.rows - distinct - selection.below_threshold - look_alikes - unreadable
    return {
        "rules": asdict(rules),
        "rows": selection.rows,
        "kept": {
            "entries": len(entries.rows),
            "distinct_pictures": distinct,
            "with_copies": int(selection.copies.sum()),
        },
        "left_out": {
            "below_threshold": selection.below_threshold,
            "look_alike_in_val_or_test": look_alikes,
            "unreadable": unreadable,
            "not_among_the_most_probable": beyond,
        },
        "classes": [_class_summary(selection, label) for label in range(selection.classes)],
    }


def _class_summary(selection: Selection, label: int) -> dict[str, Any]:
    start, end = np.searchsorted(selection.entries.classes, [label, label + 1])
    chances = selection.entries.probabilities[start:end]
    return {
        "kept": int(end - start),
        "with_copies": int(selection.copies[start:end].sum()),
        "lowest_probability": float(chances[-1]) if len(chances) else None,
    }


def _candidates(chunk: probabilities.Chunk, first_row: int, floors: NDArray[np.float32], rules: Rules) -> Entries:
    """Rows of the chunk that may still enter: a later row loses a tie, so it must be above its class's floor."""
    threshold = np.float32(rules.threshold)
    if rules.rank == "each_class":
        known = chunk.any(axis=1, keepdims=True)
        rows, classes = np.nonzero((chunk > floors) & (chunk >= threshold) & known)
    else:
        every = chunk.argmax(axis=1)
        best = chunk[np.arange(len(chunk)), every]
        rows = np.flatnonzero((best > floors[every]) & (best >= threshold) & (best > 0))
        classes = every[rows]
    return Entries(classes.astype(np.int32), chunk[rows, classes], rows + first_row)


def _copies(counts: NDArray[np.int64], rules: Rules) -> NDArray[np.int64]:
    """How often to repeat each picture so that its class has `per_class`; the seed draws which get one more."""
    copies = []
    for label, count in enumerate(counts.tolist()):
        if not count:
            continue
        times, rest = divmod(rules.per_class, count)
        one_class = np.full(count, times, np.int64)
        one_class[np.random.default_rng([rules.seed, label]).permutation(count)[:rest]] += 1
        copies.append(one_class)
    return np.concatenate([np.empty(0, np.int64), *copies])


def _named(order: NDArray[np.int64], rows: Rows, names: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Pair the entries, in the order of their rows, with their names; `names` yields the names of all rows."""
    read, name = 0, ""
    for i in order.tolist():
        while read <= rows[i]:
            try:
                name = next(names)
            except StopIteration:
                raise ConfigError(f"there are names for only {read} rows, but row {rows[i]} was kept") from None
            read += 1
        yield i, name


def _why(rank: int, label: int, rules: Rules) -> str:
    best = f"number {rank} of the {rules.per_class} most probable of class {label}"
    return f"{best}; at or above {rules.threshold:g}" if rules.threshold else best


def _all_may_stay(rows: Rows) -> NDArray[np.bool_]:
    return np.ones(len(rows), bool)
