"""Leave out unlabelled pictures that clearly show something else than the labelled ones, one by one.

    k    = EXPECTED (N + M) / N            N labelled pictures, M unlabelled ones
    c(x) = how many of the k pictures whose features are nearest to those of x are labelled

Among pictures of one kind, every neighbourhood has its share of labelled ones: EXPECTED on average. A picture with at
most FEWEST (a chance of 1 in 2,000, by Poisson's distribution) has hardly any labelled picture around it, and is left
out. Distances alone do not tell: pictures of digits are nearer to photographs than these are to each other, but nearer
still to other digits. Few foreign pictures, fewer than k or each unlike the others, stay unnoticed. foreign_share.py
asks whether the rest, as a whole, is of another kind.

foreign.json notes what was left out, so that a fit that continues leaves out the same; foreign.csv is for people.

| symbol | name         |
|--------|--------------|
| c      | labeled_near |
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.wording import counted
from metapl.features import load
from metapl.fit import encoded
from metapl.fit.climb import Climb
from metapl.fit.folder import explaining_damage, read_json, write_json
from metapl.fit.unit_vectors import unit_vectors

ROWS, TABLE = "foreign.json", "foreign.csv"
EXPECTED, FEWEST = 10, 1
LEAST = 30  # labelled pictures; fewer say nothing about neighbourhoods
MOST = 5000  # unlabelled pictures that stand for all of them as neighbours
AT_ONCE = 512  # pictures whose neighbours are looked for at a time

Values = NDArray[np.float32]
Rows = NDArray[np.int64]


class Found(NamedTuple):
    """What was left out: pictures with the fewest labelled neighbours first, the least similar of these first."""

    rows: list[int]  # among all unlabelled pictures
    places: list[int]  # among those that were encoded
    labeled_near: list[int]
    similarity: list[float]  # the cosine with the nearest labelled picture
    nearest: list[int]  # its row


NOTHING = Found([], [], [], [], [])


def leave_out(climb: Climb) -> None:
    """Leave out unlabelled pictures that clearly show something else; a session that continues leaves out the same."""
    if not climb.request.filter_foreign:
        return
    some = climb.features
    if not (climb.out / ROWS).is_file():
        rows = load.chosen_rows(climb.facts["unlabeled"], some.settings.unlabeled)
        write(climb.out, find(some.labeled, some.unlabeled, rows))
    found = read(climb.out)
    climb.encoded = encoded.without(some, np.array(found.places, np.int64))
    climb.only_foreign = not len(climb.features.unlabeled)
    if found.rows:
        climb.say(
            f"{counted(len(found.rows), 'unlabelled picture')} left out: their features are like those of hardly any "
            f"labelled picture, so they probably show something else. {TABLE} lists them; "
            "--no-filter-foreign keeps them"
        )


def find(labeled: Values, unlabeled: Values, rows: Rows) -> Found:
    """Find them by their features; `rows` are those of the encoded pictures among all unlabelled ones."""
    if len(labeled) < LEAST or not len(unlabeled):
        return NOTHING
    chosen = np.sort(np.random.RandomState(0).permutation(len(unlabeled))[:MOST])
    crowd = unit_vectors(np.concatenate([labeled, unlabeled[chosen]])).astype(np.float32)
    neighbours = -(-EXPECTED * len(crowd) // len(labeled))
    if neighbours + 1 >= len(crowd):
        return NOTHING
    near, similarity, nearest = (np.concatenate(parts) for parts in zip(
        *(_look_around(unlabeled[at : at + AT_ONCE], crowd, len(labeled), neighbours)
          for at in range(0, len(unlabeled), AT_ONCE)), strict=True))  # fmt: skip
    places = np.flatnonzero(near <= FEWEST)
    places = places[np.lexsort((similarity[places], near[places]))]
    cosines = [round(float(cosine), 4) for cosine in similarity[places]]
    return Found(
        rows[places].tolist(), places.tolist(), near[places].tolist(), cosines, nearest[places].tolist()
    )  # fmt: skip


def _look_around(pictures: Values, crowd: Values, labeled: int, neighbours: int) -> tuple[Rows, Values, Rows]:
    """Labelled pictures among each one's neighbours, the largest cosine with a labelled one, and which one that is."""
    cosines = unit_vectors(pictures).astype(np.float32) @ crowd.T
    among = np.argpartition(-cosines, neighbours, axis=-1)[:, : neighbours + 1]  # one more: most find themselves
    own = cosines[:, :labeled]
    return (among < labeled).sum(-1), own.max(-1), own.argmax(-1)


def write(out: Path, found: Found) -> None:
    """Note what is left out."""
    write_json(out / ROWS, found._asdict())


def read(out: Path) -> Found:
    """Read what is left out; nothing if the fit has not looked for foreign pictures."""
    with explaining_damage(out / ROWS):
        return Found(**read_json(out / ROWS)) if (out / ROWS).is_file() else NOTHING


def listed(
    out: Path, names: list[str], labels: NDArray[np.int32], class_names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The pictures that were left out, for lists; `names` are those of the encoded unlabelled pictures."""
    found = read(out)
    return [
        {
            "row": found.places[i],
            "path": names[found.places[i]],
            "labeled_near": found.labeled_near[i],
            "nearest": class_names[labels[found.nearest[i]]],
            "similarity": found.similarity[i],
        }
        for i in range(len(found.rows))
    ]
