"""Check a source before training on it: bad files, odd sizes, copies, leaks, class counts.

A *problem* makes a result wrong: a file that cannot be read, a test picture that is also trained on, a label that is
not a class, one picture with two labels. A *note* is something to know: copies inside a part, grey pictures, imbalance.
Look-alikes across training and test are a note, too, because the perceptual hash can err on simple pictures (such as
two handwritten ones); `strict` makes them problems.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from metapl.data.audit import duplicates
from metapl.data.audit.duplicates import Duplicates, PicturePlace
from metapl.data.audit.near import MAX_DISTANCE
from metapl.data.audit.survey import Survey, survey, survey_within
from metapl.data.audit.wording import counted
from metapl.data.sources.source import Part, Source

IMBALANCE = 10.0  # a note is given if a class has so many times the pictures of another
LISTED = 100_000  # groups and pairs that audit.json lists at most; it counts all of them


@dataclass(frozen=True)
class Check:
    """How a source is checked."""

    near: Annotated[int, Ge(0), Le(MAX_DISTANCE)] = 4
    """Bits of 64 in which the perceptual hashes of look-alikes may differ; 0 to 7."""
    strict: bool = False
    """Report look-alikes across training and val or test as problems instead of notes."""


DEFAULT = Check()
NO_LIMITS: Mapping[str, float] = {}
Severity = Literal["problem", "note"]


class AuditFinding(NamedTuple):
    """One sentence about the source."""

    severity: Severity
    text: str


class Audit(NamedTuple):
    """The source, a survey of each part, copies, and findings."""

    source: Source
    surveys: dict[str, Survey]
    duplicates: Duplicates
    findings: tuple[AuditFinding, ...]

    @property
    def problems(self) -> tuple[AuditFinding, ...]:
        """The findings that make a result wrong."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")


def audit(source: Source, console: Console, check: Check = DEFAULT, seconds: Mapping[str, float] = NO_LIMITS) -> Audit:
    """Read every picture of every part once and compare them all.

    Of the parts that `seconds` names, as many pictures are read as that time allows; the result's source has no others.
    """
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn("pictures"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console) as bar:
        parts, surveys = dict(source.parts), {}
        for name, part in source.parts.items():
            advance = partial(bar.advance, bar.add_task(name, total=len(part.images)))
            if name in seconds:
                parts[name], surveys[name] = survey_within(part, seconds[name], advance)
            else:
                surveys[name] = survey(part.images, advance)
    source = source._replace(parts=parts)
    copies = duplicates.find(surveys, check.near)
    return Audit(source, surveys, copies, tuple(_findings(source, surveys, copies, check)))


def class_counts(part: Part, classes: int) -> list[int]:
    """Pictures of each class."""
    counts = Counter(part.labels.tolist())
    return [counts[label] for label in range(classes)]


def write(audited: Audit, folder: Path) -> None:
    """Write audit.json, and hashes.npz for `metapl data select`, into the folder."""
    (folder / "audit.json").write_text(json.dumps(to_dict(audited), indent=2) + "\n", "utf-8")
    arrays: dict[str, Any] = {}
    for name, part in audited.surveys.items():
        arrays |= {f"{name}.hashes": part.hashes, f"{name}.readable": part.readable}
    np.savez(folder / "hashes.npz", **arrays)


def to_dict(audited: Audit) -> dict[str, Any]:
    """The content of audit.json."""
    copies = audited.duplicates
    return {
        "findings": [finding._asdict() for finding in audited.findings],
        "class_names": list(audited.source.class_names),
        "parts": {name: _part_dict(audited, name) for name in audited.surveys},
        "duplicates": {
            "exact_groups": len(copies.exact),
            "near_pairs": len(copies.near),
            "exact_overlaps": [overlap._asdict() | {"leak": overlap.leak} for overlap in copies.exact_overlaps],
            "near_overlaps": [overlap._asdict() | {"leak": overlap.leak} for overlap in copies.near_overlaps],
            "exact": [[_name(audited.source, picture) for picture in group] for group in copies.exact[:LISTED]],
            "near": [
                {"pictures": [_name(audited.source, a), _name(audited.source, b)], "distance": distance}
                for a, b, distance in copies.near[:LISTED]
            ],
        },
    }


def _part_dict(audited: Audit, name: str) -> dict[str, Any]:
    part, seen = audited.source.parts[name], audited.surveys[name]
    counts = class_counts(part, len(audited.source.class_names))
    return {
        "pictures": len(part.images),
        "unlabeled": int(np.sum(part.labels < 0)),
        "class_counts": dict(zip(audited.source.class_names, counts, strict=True)),
        "sizes": {f"{width}x{height}": count for (height, width), count in seen.sizes.most_common()},
        "modes": dict(seen.modes.most_common()),
        "even": list(seen.even),
        "unreadable": [{"name": bad.name, "reason": bad.reason} for bad in seen.unreadable],
    }


def _name(source: Source, picture: PicturePlace) -> str:
    return f"{picture.part}: {source.parts[picture.part].images.name(picture.row)}"


def _findings(
    source: Source, surveys: Mapping[str, Survey], copies: Duplicates, check: Check
) -> Iterator[AuditFinding]:
    for name, part in source.parts.items():
        yield from _part_findings(name, part, surveys[name], source.class_names)
    yield from _copy_findings(copies, check)
    conflicts = [group for group in copies.exact if len(_labels(source, group)) > 1]
    if conflicts:
        yield AuditFinding(
            "problem",
            f"{counted(len(conflicts), 'picture')} with several labels (the first: {_name(source, conflicts[0][0])})",
        )


def _part_findings(name: str, part: Part, seen: Survey, class_names: tuple[str, ...]) -> Iterator[AuditFinding]:
    if seen.unreadable:
        first = seen.unreadable[0]
        yield AuditFinding(
            "problem", f"{name}: {counted(len(seen.unreadable), 'picture')} cannot be read (the first: {first.reason})"
        )
    if not len(part.images):
        yield AuditFinding("note", f"{name}: no pictures")
    if wrong := np.flatnonzero((part.labels >= len(class_names)) | (part.labels < -1)).tolist():
        label = part.labels[wrong[0]]
        yield AuditFinding(
            "problem",
            f"{name}: {counted(len(wrong), 'label')} outside the classes (the first: {label} of "
            f"{part.images.name(wrong[0])})",
        )
    if len(seen.sizes) > 1:
        (low, _), (high, _) = min(seen.sizes), max(seen.sizes)
        yield AuditFinding("note", f"{name}: {len(seen.sizes)} sizes of pictures, {low} to {high} pixels high")
    if odd := {mode: count for mode, count in seen.modes.items() if mode != "RGB"}:
        stored = ", ".join(f"{count:,} as {mode}" for mode, count in sorted(odd.items()))
        yield AuditFinding("note", f"{name}: not stored as RGB: {stored}")
    if deep := sum(count for mode, count in seen.modes.items() if mode == "F" or mode.startswith("I")):
        how = "floats, 32 bits, and 16 bits with a narrow range: from each picture's darkest to its brightest shade"
        yield AuditFinding(
            "note", f"{name}: {counted(deep, 'picture')} of more than 8 bits a pixel, converted to 8 ({how})"
        )
    if seen.even:
        yield AuditFinding(
            "note",
            f"{name}: {counted(len(seen.even), 'picture')} of only one shade, or almost (the first: {seen.even[0]})",
        )
    yield from _balance(name, class_counts(part, len(class_names)), class_names)


def _balance(name: str, counts: list[int], class_names: tuple[str, ...]) -> Iterator[AuditFinding]:
    if not sum(counts):
        return
    if empty := [label for label, count in zip(class_names, counts, strict=True) if not count]:
        yield AuditFinding("note", f"{name}: no picture of {', '.join(empty[:10])}{' …' if len(empty) > 10 else ''}")
    least, most = min(count for count in counts if count), max(counts)
    if most >= IMBALANCE * least:
        yield AuditFinding("note", f"{name}: {most:,} pictures of the largest class, {least:,} of the smallest")


def _copy_findings(copies: Duplicates, check: Check) -> Iterator[AuditFinding]:
    for overlap in copies.exact_overlaps:
        severity: Severity = "problem" if overlap.leak else "note"
        yield AuditFinding(
            severity, f"{_overlap_text(overlap, 'copy')} with equal pixels{' (a leak)' if overlap.leak else ''}"
        )
    for overlap in copies.near_overlaps:
        severity = "problem" if overlap.leak and check.strict else "note"
        advice = " (a leak if they are the same picture: audit.json lists them)" if overlap.leak else ""
        yield AuditFinding(severity, f"{_overlap_text(overlap, 'look-alike')}{advice}")


def _overlap_text(overlap: duplicates.Overlap, noun: str) -> str:
    verb = "has" if overlap.pictures == 1 else "have"
    where = "the same part" if overlap.part == overlap.other else overlap.other
    return f"{overlap.part}: {counted(overlap.pictures, 'picture')} {verb} a {noun} in {where}"


def _labels(source: Source, group: list[PicturePlace]) -> set[int]:
    """The group's labels; unlabelled pictures have none."""
    return {int(source.parts[part].labels[row]) for part, row in group} - {-1}
