"""Look at a source before training on it: bad files, odd sizes, copies, leaks, class counts.

A *problem* makes a result wrong: a file that cannot be read, a test picture that is also trained on, a label that is
no class, one picture with two labels. A *note* is something to know: copies inside a part, grey pictures, imbalance.
Pictures that look the same across training and test are a note, too, since the eye's hash can err on simple pictures
(of two handwritten ones, say); `strict` makes them problems.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.data.audit import duplicates
from metapl.data.audit.duplicates import Duplicates, Picture
from metapl.data.audit.near import MAX_DISTANCE
from metapl.data.audit.survey import Survey, survey
from metapl.data.sources.source import Part, Source

IMBALANCE = 10.0  # a class with this many times the pictures of another is worth a note
LISTED = 100_000  # groups and pairs that audit.json names; the counts are of all of them


@dataclass(frozen=True)
class Check:
    """How a source is checked."""

    near: Annotated[int, Ge(0), Le(MAX_DISTANCE)] = 4
    """Bits of 64 in which the perceptual hashes of look-alikes may differ; 0 to 7."""
    strict: bool = False
    """Whether look-alikes across training and val or test are problems, rather than notes."""


DEFAULT = Check()
Severity = Literal["problem", "note"]


class Finding(NamedTuple):
    """One sentence about the source."""

    severity: Severity
    text: str


class Audit(NamedTuple):
    """All that was found."""

    source: Source
    surveys: dict[str, Survey]
    duplicates: Duplicates
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What must be mended before a result can be believed."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")


def audit(source: Source, console: Console, check: Check = DEFAULT) -> Audit:
    """Read every picture of every part once and compare them all."""
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn("pictures"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console) as bar:
        surveys = {}
        for name, part in source.parts.items():
            task = bar.add_task(name, total=len(part.images))
            surveys[name] = survey(part.images, lambda count, task=task: bar.advance(task, count))  # type: ignore[misc]
    copies = duplicates.find(surveys, check.near)
    return Audit(source, surveys, copies, tuple(_findings(source, surveys, copies, check)))


def class_counts(part: Part, classes: int) -> list[int]:
    """Pictures of each class."""
    counts = Counter(part.labels.tolist())
    return [counts[label] for label in range(classes)]


def write(found: Audit, folder: Path) -> None:
    """Write audit.json, and hashes.npz for `metapl data select`, into the folder."""
    (folder / "audit.json").write_text(json.dumps(to_dict(found), indent=2) + "\n", "utf-8")
    arrays: dict[str, Any] = {}
    for name, part in found.surveys.items():
        arrays |= {f"{name}.hashes": part.hashes, f"{name}.readable": part.readable}
    np.savez(folder / "hashes.npz", **arrays)


def to_dict(found: Audit) -> dict[str, Any]:
    """Everything, as JSON takes it."""
    copies = found.duplicates
    return {
        "findings": [finding._asdict() for finding in found.findings],
        "class_names": list(found.source.class_names),
        "parts": {name: _part_dict(found, name) for name in found.surveys},
        "duplicates": {
            "exact_groups": len(copies.exact),
            "near_pairs": len(copies.near),
            "exact_overlaps": [overlap._asdict() | {"leak": overlap.leak} for overlap in copies.exact_overlaps],
            "near_overlaps": [overlap._asdict() | {"leak": overlap.leak} for overlap in copies.near_overlaps],
            "exact": [[_name(found.source, picture) for picture in group] for group in copies.exact[:LISTED]],
            "near": [
                {"pictures": [_name(found.source, a), _name(found.source, b)], "distance": distance}
                for a, b, distance in copies.near[:LISTED]
            ],
        },
    }


def _part_dict(found: Audit, name: str) -> dict[str, Any]:
    part, seen = found.source.parts[name], found.surveys[name]
    counts = class_counts(part, len(found.source.class_names))
    return {
        "pictures": len(part.images),
        "unlabeled": int(np.sum(part.labels < 0)),
        "class_counts": dict(zip(found.source.class_names, counts, strict=True)),
        "sizes": {f"{width}x{height}": count for (height, width), count in seen.sizes.most_common()},
        "modes": dict(seen.modes.most_common()),
        "even": list(seen.even),
        "unreadable": [{"name": bad.name, "reason": bad.reason} for bad in seen.unreadable],
    }


def _name(source: Source, picture: Picture) -> str:
    return f"{picture.part}: {source.parts[picture.part].images.name(picture.row)}"


def _findings(source: Source, surveys: Mapping[str, Survey], copies: Duplicates, check: Check) -> Iterator[Finding]:
    for name, part in source.parts.items():
        yield from _part_findings(name, part, surveys[name], source.class_names)
    yield from _copy_findings(copies, check)
    conflicts = [group for group in copies.exact if len(_labels(source, group)) > 1]
    if conflicts:
        yield Finding(
            "problem",
            f"{_count(conflicts, 'picture')} with several labels, the first is {_name(source, conflicts[0][0])}",
        )


def _part_findings(name: str, part: Part, seen: Survey, class_names: tuple[str, ...]) -> Iterator[Finding]:
    if seen.unreadable:
        first = seen.unreadable[0]
        yield Finding("problem", f"{name}: {_count(seen.unreadable, 'picture')} unreadable, the first: {first.reason}")
    if not len(part.images):
        yield Finding("note", f"{name}: no pictures")
    if wrong := np.flatnonzero((part.labels >= len(class_names)) | (part.labels < -1)).tolist():
        label = part.labels[wrong[0]]
        yield Finding(
            "problem",
            f"{name}: {_count(wrong, 'label')} of no class, the first is {label} of {part.images.name(wrong[0])}",
        )
    if len(seen.sizes) > 1:
        (low, _), (high, _) = min(seen.sizes), max(seen.sizes)
        yield Finding("note", f"{name}: {len(seen.sizes)} sizes of pictures, {low} to {high} pixels high")
    if odd := {mode: count for mode, count in seen.modes.items() if mode != "RGB"}:
        stored = ", ".join(f"{count:,} as {mode}" for mode, count in sorted(odd.items()))
        yield Finding("note", f"{name}: not stored as RGB: {stored}")
    if deep := sum(count for mode, count in seen.modes.items() if mode == "F" or mode.startswith("I")):
        of_own = "floats, 32 bits, or little of 16 in use: from each picture's own darkest to its own brightest shade"
        yield Finding("note", f"{name}: {deep:,} of more than 8 bits a pixel, brought to 8 ({of_own})")
    if seen.even:
        yield Finding(
            "note", f"{name}: {_count(seen.even, 'picture')} of one shade, or nearly: the first is {seen.even[0]}"
        )
    yield from _balance(name, class_counts(part, len(class_names)), class_names)


def _balance(name: str, counts: list[int], class_names: tuple[str, ...]) -> Iterator[Finding]:
    if not sum(counts):
        return
    if empty := [label for label, count in zip(class_names, counts, strict=True) if not count]:
        yield Finding("note", f"{name}: no picture of {', '.join(empty[:10])}{' …' if len(empty) > 10 else ''}")
    least, most = min(count for count in counts if count), max(counts)
    if most >= IMBALANCE * least:
        yield Finding("note", f"{name}: {most:,} pictures of the largest class, {least:,} of the smallest")


def _copy_findings(copies: Duplicates, check: Check) -> Iterator[Finding]:
    for overlap in copies.exact_overlaps:
        severity: Severity = "problem" if overlap.leak else "note"
        yield Finding(severity, f"{_overlap_text(overlap)} with equal pixels{' (a leak)' if overlap.leak else ''}")
    for overlap in copies.near_overlaps:
        severity = "problem" if overlap.leak and check.strict else "note"
        advice = " (a leak if they are the same: audit.json lists them)" if overlap.leak else ""
        yield Finding(severity, f"{_overlap_text(overlap)} that looks alike{advice}")


def _overlap_text(overlap: duplicates.Overlap) -> str:
    verb = "picture has" if overlap.pictures == 1 else "pictures have"
    where = "another there" if overlap.part == overlap.other else f"one in {overlap.other}"
    return f"{overlap.part}: {overlap.pictures:,} {verb} {where}"


def _labels(source: Source, group: list[Picture]) -> set[int]:
    """The group's labels; unlabelled pictures have none."""
    return {int(source.parts[part].labels[row]) for part, row in group} - {-1}


def _count(things: Any, noun: str) -> str:
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"
