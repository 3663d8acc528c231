"""Which pictures are the same, or look the same, inside and across the parts of a source."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from metapl.data.audit import near
from metapl.data.audit.hashing import distances
from metapl.data.audit.survey import Survey

EVALUATION = ("test", "val")  # parts that nothing trained on may overlap with


class Picture(NamedTuple):
    """A picture's place: its part, and its row in it."""

    part: str
    row: int


Group = list[Picture]  # pictures with the same pixels
Cluster = list[Group]  # groups with the same perceptual hash


class Overlap(NamedTuple):
    """How many pictures of `part` have their like in `other`; the same part twice means copies inside it."""

    part: str
    other: str
    pictures: int

    @property
    def leak(self) -> bool:
        """Whether what is evaluated on was also trained or tuned on."""
        return self.part != self.other and (self.part in EVALUATION or self.other in EVALUATION)


class Duplicates(NamedTuple):
    """Groups of equal pictures, and pairs that look alike with the bits between them, one pair for each two groups."""

    exact: tuple[Group, ...]
    near: tuple[tuple[Picture, Picture, int], ...]
    exact_overlaps: tuple[Overlap, ...]
    near_overlaps: tuple[Overlap, ...]


def find(surveys: Mapping[str, Survey], max_distance: int) -> Duplicates:
    """Compare all readable pictures of all parts with each other, without comparing all pairs."""
    clusters = _clusters(surveys)
    hashes = np.array(list(clusters), np.uint64)
    alike = list(clusters.values())
    left, right = near.match(hashes, hashes, max_distance)
    left, right = left[left < right], right[left < right]
    apart = distances(hashes[left], hashes[right])
    groups = [group for cluster in alike for group in cluster if len(group) > 1]
    return Duplicates(
        tuple(groups),
        # A cluster's groups pair with its first only: thousands of nearly black pictures are no millions of pairs.
        tuple((cluster[0][0], group[0], 0) for cluster in alike for group in cluster[1:])
        + tuple((alike[i][0][0], alike[j][0][0], int(d)) for i, j, d in zip(left, right, apart, strict=True)),
        _exact_overlaps(groups),
        _near_overlaps(alike, [(alike[i], alike[j]) for i, j in zip(left, right, strict=True)]),
    )


def _clusters(surveys: Mapping[str, Survey]) -> dict[int, Cluster]:
    """Readable pictures by their hash, then by their pixels, in order of first appearance."""
    clusters: dict[int, dict[bytes, Group]] = defaultdict(lambda: defaultdict(list))
    for part, survey in surveys.items():
        for row in np.flatnonzero(survey.readable).tolist():
            clusters[int(survey.hashes[row])][survey.digests[row].tobytes()].append(Picture(part, row))
    return {key: list(groups.values()) for key, groups in clusters.items()}


class _Tally:
    """Pictures that have their like in a part, each counted once."""

    def __init__(self) -> None:
        self._having: dict[tuple[str, str], set[Picture]] = defaultdict(set)

    def add(self, pictures: Iterable[Picture], parts: Iterable[str]) -> None:
        for picture in pictures:
            for part in parts:
                self._having[picture.part, part].add(picture)

    def overlaps(self) -> tuple[Overlap, ...]:
        """One for every two parts: what is evaluated on is what is counted, else the first by name."""
        return tuple(
            Overlap(part, other, len(pictures))
            for (part, other), pictures in sorted(self._having.items())
            if (part not in EVALUATION, part) <= (other not in EVALUATION, other)
        )


def _exact_overlaps(groups: Iterable[Group]) -> tuple[Overlap, ...]:
    tally = _Tally()
    for group in groups:
        counts = Counter(picture.part for picture in group)
        for own in counts:
            others = [part for part, count in counts.items() if part != own or count > 1]
            tally.add((picture for picture in group if picture.part == own), others)
    return tally.overlaps()


def _near_overlaps(clusters: Iterable[Cluster], pairs: Iterable[tuple[Cluster, Cluster]]) -> tuple[Overlap, ...]:
    tally = _Tally()
    for cluster in clusters:
        counts = Counter(part for group in cluster for part in _parts(group))
        for group in cluster:
            own = _parts(group)
            tally.add(group, [part for part, count in counts.items() if count > (part in own)])
    for some, others in pairs:
        for these, those in ((some, others), (others, some)):
            parts = set[str]().union(*map(_parts, those))
            for group in these:
                tally.add(group, parts)
    return tally.overlaps()


def _parts(group: Group) -> set[str]:
    return {picture.part for picture in group}
