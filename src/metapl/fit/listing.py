"""Decide the role of every picture, and write it down: pictures.csv, or pictures.npz for arrays.

The runs read that file and nothing else, so a person can see how each picture was used.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.audit.audit import Audit
from metapl.data.audit.wording import counted
from metapl.data.reading.packed import Packed
from metapl.data.sources import csv_list, npz
from metapl.data.sources.dataset import Role
from metapl.data.sources.source import Files, Images, InMemory, Part, PictureConfig
from metapl.data.splits.select import join, take
from metapl.fit.examine import check_classes
from metapl.fit.roles import MeasuredOn, Rows, assign_roles, group_copies, keep_held_out, measured_rows
from metapl.schema import ConfigError
from metapl.system.disk import explaining_disk_errors, write_atomically

LIST, ARRAYS = "pictures.csv", "pictures.npz"
GOES_ON = "the same metapl fit command continues it"


class Listing(NamedTuple):
    """Pictures by role, ready to be written, and remarks about them."""

    roles: Mapping[Role, Part]
    class_names: tuple[str, ...]
    measured_on: MeasuredOn
    remarks: tuple[str, ...]  # sentences for the user and the verdict
    leaks: int  # labelled pictures that are also in val or test, and were allowed


def make_listing(audit: Audit, allow_duplicates: bool, seed: int, held_out: frozenset[str] = frozenset()) -> Listing:
    """Leave out unusable pictures, refuse leaks, and give every other picture its role.

    `held_out` are absolute paths of pictures that an earlier fit has measured itself on.
    """
    remarks: list[str] = []
    good = {role: np.flatnonzero(_usable(audit, role, remarks)) for role in audit.surveys}
    leaks = _leaks(audit, good)
    if leaks:
        also_there = f"{counted(len(leaks), 'labelled picture')} {_is(len(leaks))} also in val or test"
        if not allow_duplicates:
            first = audit.source.parts["labeled"].images.name(leaks[0])
            raise ConfigError(
                f"{also_there} (the first: {first}), so the accuracies would be too high; remove one of the two "
                "copies, or give --allow-duplicates"
            )
        remarks.append(f"{also_there}: the accuracies are too high")
    good |= _without_copies(audit, good, remarks)
    labeled, val = _good_part(audit, "labeled", good), _good_part(audit, "val", good)
    _check_classes(audit.source.class_names, labeled.labels, remarks)
    _remark_on_several_labels(audit, good["labeled"], remarks)
    groups = group_copies(audit.surveys["labeled"], good["labeled"])
    rows = assign_roles(labeled.labels, groups, val.labels, len(good.get("test", ())) > 0, seed)
    if rows.measured_on == "labelled pictures" and held_out:
        rows = keep_held_out(rows, np.array([_path(labeled.images, i) in held_out for i in range(len(labeled.images))]))
    test = _joined(_rows_of(labeled, rows.test), _rows_of(val, rows.val_part_test))
    roles: dict[Role, Part] = {
        "labeled": _rows_of(labeled, rows.labeled),
        "val": _rows_of(val, rows.val_part_val),
        "test": _joined(test, _measured(_good_part(audit, "test", good), seed, remarks)),
        "unlabeled": _good_part(audit, "unlabeled", good),
    }
    if not len(roles["unlabeled"].images):
        remarks.append("there are no unlabelled pictures, so every model learns from the labelled ones alone")
    _remark_on_unmeasured(roles["test"].labels, rows.measured_on, audit.source.class_names, remarks)
    return Listing(roles, audit.source.class_names, rows.measured_on, tuple(remarks), len(leaks))


def _check_classes(class_names: tuple[str, ...], labels: NDArray[np.int32], remarks: list[str]) -> None:
    """Refuse classes that no model can be made for; labelled pictures that were left out may be the cause."""
    try:
        check_classes(class_names, labels)
    except ConfigError as error:
        left_out = "; ".join(remark for remark in remarks if remark.startswith("labeled: "))
        raise ConfigError(f"{error} ({left_out})" if left_out else str(error)) from None


def _usable(audit: Audit, role: str, remarks: list[str]) -> NDArray[np.bool_]:
    """Which pictures can be read, and listed in a text file."""
    images, survey = audit.source.parts[role].images, audit.surveys[role]
    named = np.array([_is_text(images.name(i)) for i in range(len(images))], bool)
    if bad := survey.unreadable:
        names = ", ".join(picture.name for picture in bad[:3]) + (" …" if len(bad) > 3 else "")
        remarks.append(f"{role}: {counted(len(bad), 'picture')} cannot be read and {_is(len(bad))} left out ({names})")
    if not named.all():
        count = int(np.sum(~named))
        remarks.append(f"{role}: {counted(count, 'picture')} {_is(count)} left out, because the name is not UTF-8")
    return survey.readable & named


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _leaks(audit: Audit, good: Mapping[str, Rows]) -> list[int]:
    """Rows of labelled pictures whose pixels are also in val or test."""
    forbidden = _digests(audit, good, "val") | _digests(audit, good, "test")
    digests = audit.surveys["labeled"].digests
    return [row for row in good["labeled"].tolist() if digests[row].tobytes() in forbidden]


def _without_copies(audit: Audit, good: Mapping[str, Rows], remarks: list[str]) -> dict[str, Rows]:
    """Leave out unlabelled pictures that have any other role, too, and val pictures that are also in test.

    Pictures may be held out from the labelled ones: a copy among the unlabelled ones would train on them. And copies of
    pictures that the baseline has learnt never look strange to it: they would hide foreign pictures beside them.
    """
    test = _digests(audit, good, "test")
    forbidden = {"unlabeled": test | _digests(audit, good, "val") | _digests(audit, good, "labeled"), "val": test}
    kept = {}
    for role, elsewhere in forbidden.items():
        if role in good:
            digests = audit.surveys[role].digests
            kept[role] = np.array([row for row in good[role] if digests[row].tobytes() not in elsewhere], np.int64)
            if copies := len(good[role]) - len(kept[role]):
                where = "labeled, val or test" if role == "unlabeled" else "test"
                left_out = f"{counted(copies, 'picture')} {_is(copies)} left out"
                remarks.append(f"{role}: {left_out}, because {where} has a copy")
    return kept


def _digests(audit: Audit, good: Mapping[str, Rows], role: str) -> set[bytes]:
    return {audit.surveys[role].digests[row].tobytes() for row in good.get(role, ())}


def _remark_on_several_labels(audit: Audit, rows: Rows, remarks: list[str]) -> None:
    labels: dict[bytes, set[int]] = {}
    for row in rows.tolist():
        digest = audit.surveys["labeled"].digests[row].tobytes()
        labels.setdefault(digest, set()).add(int(audit.source.parts["labeled"].labels[row]))
    if count := sum(len(of_picture) > 1 for of_picture in labels.values()):
        remarks.append(f"labeled: {counted(count, 'picture')} with several labels, of which at most one can be right")


def _measured(test: Part, seed: int, remarks: list[str]) -> Part:
    """The pictures of the test part that measure the models."""
    rows = measured_rows(len(test.images), seed)
    if len(rows) < len(test.images):
        remarks.append(f"test: {len(rows):,} of {len(test.images):,} pictures measure the models, drawn at random")
    return _rows_of(test, rows)


def _remark_on_unmeasured(
    labels: NDArray[np.int32], measured_on: MeasuredOn, class_names: tuple[str, ...], remarks: list[str]
) -> None:
    measured = set(labels.tolist())
    if unmeasured := [name for i, name in enumerate(class_names) if i not in measured]:
        why = "too few labelled pictures" if measured_on == "labelled pictures" else f"no picture in the {measured_on}"
        names = ", ".join(unmeasured[:5]) + (" …" if len(unmeasured) > 5 else "")
        classes = "class is" if len(unmeasured) == 1 else "classes are"
        remarks.append(f"{len(unmeasured):,} {classes} not measured ({why}): {names}")


def _good_part(audit: Audit, role: str, good: Mapping[str, Rows]) -> Part:
    """The good pictures of a role; an empty part of the same kind if the data do not have the role."""
    if role not in audit.source.parts:
        return _rows_of(audit.source.parts["labeled"], np.arange(0))
    return _rows_of(audit.source.parts[role], good[role])


def _rows_of(part: Part, rows: Rows) -> Part:
    return Part(take(part.images, rows), part.labels[rows])


def _joined(first: Part, second: Part) -> Part:
    if not len(first.images) or not len(second.images):
        return first if len(first.images) else second
    return Part(join([first.images, second.images]), np.concatenate([first.labels, second.labels]))


def write(listing: Listing, out: Path) -> None:
    """Write the list or the arrays, completely or not at all."""
    with explaining_disk_errors(out, GOES_ON):
        if isinstance(listing.roles["labeled"].images, Files | Packed):
            write_atomically(out / LIST, _csv(listing).encode())
        else:
            write_atomically(out / ARRAYS, _npz(listing))


def settings(out: Path, size: int) -> PictureConfig | None:
    """The source that the runs train on; None if it is not written yet."""
    if (out / LIST).is_file():
        return csv_list.CsvList(file=str((out / LIST).absolute()), outside=True, size=size)
    if (out / ARRAYS).is_file():
        return npz.Npz(file=str((out / ARRAYS).absolute()), size=size, max_gigabytes=64.0)
    return None


def _csv(listing: Listing) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["path", "label", "split"])
    for role, part in listing.roles.items():
        for i, label in enumerate(part.labels.tolist()):
            writer.writerow([_path(part.images, i), listing.class_names[label] if label >= 0 else "", role])
    return text.getvalue()


def _path(images: Images, row: int) -> str:
    return str(Path(images.name(row)).absolute())


def _npz(listing: Listing) -> bytes:
    """The arrays by the names that the source `npz` reads."""
    arrays: dict[str, NDArray[np.generic]] = {"class_names": np.array(listing.class_names)}
    for role, (images_key, labels_key) in npz.KEYS_OF_ROLE.items():
        part = listing.roles[role]
        if len(part.images):
            arrays[images_key] = _array(part.images)
            if labels_key:
                arrays[labels_key] = part.labels
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _array(images: Images) -> NDArray[np.uint8]:
    assert isinstance(images, InMemory)
    return images.array
