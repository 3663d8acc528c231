"""Find pictures that are the same, or look the same, inside and across the parts of a source."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from metapl.data.audit import near
from metapl.data.audit.hashing import distances
from metapl.data.audit.survey import Survey

EVALUATION = ("test", "val")  # parts that no training picture may be in


class PicturePlace(NamedTuple):
    """Where a picture is: its part, and its row in the part."""

    part: str
    row: int


Group = list[PicturePlace]  # pictures with the same pixels
Cluster = list[Group]  # groups with the same perceptual hash


class Overlap(NamedTuple):
    """How many pictures of `part` have a copy or look-alike in `other`, which may be the same part."""

    part: str
    other: str
    pictures: int

    @property
    def leak(self) -> bool:
        """Whether pictures for evaluation are also used for training or tuning."""
        return self.part != self.other and (self.part in EVALUATION or self.other in EVALUATION)


class Duplicates(NamedTuple):
    """Groups of equal pictures; pairs of look-alikes, one for each two groups, with the bits in which hashes differ."""

    exact: tuple[Group, ...]
    near: tuple[tuple[PicturePlace, PicturePlace, int], ...]
    exact_overlaps: tuple[Overlap, ...]
    near_overlaps: tuple[Overlap, ...]


def find(surveys: Mapping[str, Survey], max_distance: int) -> Duplicates:
    """Compare all readable pictures of all parts with each other, without comparing all pairs."""
    clusters = _clusters(surveys)
    hashes = np.array(list(clusters), np.uint64)
    same_hash = list(clusters.values())
    left, right = near.match(hashes, hashes, max_distance)
    left, right = left[left < right], right[left < right]
    apart = distances(hashes[left], hashes[right])
    groups = [group for cluster in same_hash for group in cluster if len(group) > 1]
    return Duplicates(
        tuple(groups),
        # A cluster's groups are paired with its first only: else thousands of nearly black pictures make millions.
        tuple((cluster[0][0], group[0], 0) for cluster in same_hash for group in cluster[1:])
        + tuple((same_hash[i][0][0], same_hash[j][0][0], int(d)) for i, j, d in zip(left, right, apart, strict=True)),
        _exact_overlaps(groups),
        _near_overlaps(same_hash, [(same_hash[i], same_hash[j]) for i, j in zip(left, right, strict=True)]),
    )


def _clusters(surveys: Mapping[str, Survey]) -> dict[int, Cluster]:
    """Readable pictures by their hash, then by their pixels, in order of first appearance."""
    clusters: dict[int, dict[bytes, Group]] = defaultdict(lambda: defaultdict(list))
    for part, survey in surveys.items():
        for row in np.flatnonzero(survey.readable).tolist():
            clusters[int(survey.hashes[row])][survey.digests[row].tobytes()].append(PicturePlace(part, row))
    return {key: list(groups.values()) for key, groups in clusters.items()}


class _Tally:
    """Counts pictures that have a copy or look-alike in a part, each once."""

    def __init__(self) -> None:
        self._having: dict[tuple[str, str], set[PicturePlace]] = defaultdict(set)

    def add(self, pictures: Iterable[PicturePlace], parts: Iterable[str]) -> None:
        for picture in pictures:
            for part in parts:
                self._having[picture.part, part].add(picture)

    def overlaps(self) -> tuple[Overlap, ...]:
        """One for every two parts; it counts pictures of val or test, else of the first part by name."""
        return tuple(
            Overlap(part, other, len(pictures))
            for (part, other), pictures in sorted(self._having.items())
            if (part not in EVALUATION, part) <= (other not in EVALUATION, other)
        )


def _exact_overlaps(groups: Iterable[Group]) -> tuple[Overlap, ...]:
    tally = _Tally()
    for group in groups:
        counts = Counter(picture.part for picture in group)
        for part in counts:
            having_copies = [other for other, count in counts.items() if other != part or count > 1]
            tally.add((picture for picture in group if picture.part == part), having_copies)
    return tally.overlaps()


def _near_overlaps(clusters: Iterable[Cluster], pairs: Iterable[tuple[Cluster, Cluster]]) -> tuple[Overlap, ...]:
    tally = _Tally()
    for cluster in clusters:
        counts = Counter(part for group in cluster for part in _parts(group))
        for group in cluster:
            of_group = _parts(group)
            tally.add(group, [part for part, count in counts.items() if count > (part in of_group)])
    for left, right in pairs:
        for cluster, other in ((left, right), (right, left)):
            parts = set[str]().union(*map(_parts, other))
            for group in cluster:
                tally.add(group, parts)
    return tally.overlaps()


def _parts(group: Group) -> set[str]:
    return {picture.part for picture in group}
