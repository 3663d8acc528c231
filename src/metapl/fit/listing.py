"""Read and audit the data, divide them, and write down who is what: pictures.csv, or pictures.npz for arrays.

The runs read that file and nothing else, so that a person can see what was done with each picture.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl.data import open_source, pictures
from metapl.data.audit import audit
from metapl.data.audit import table as audit_table
from metapl.data.audit.audit import Audit
from metapl.data.reading.files import Folders
from metapl.data.sources import csv_list, npz
from metapl.data.sources.folder import Folder
from metapl.data.sources.source import Files, Images, InMemory, Part, PictureConfig, Source
from metapl.data.sources.spec import parse_for
from metapl.data.splits.select import select
from metapl.data.splits.split import PartRows, labels_of, make_split
from metapl.fit.parts import Origin, alike, divide
from metapl.schema import ConfigError
from metapl.system.disk import explaining_disk_errors, write_atomically

LIST, ARRAYS = "pictures.csv", "pictures.npz"
TRAINING = ("labeled", "unlabeled")
GOES_ON = "the same metapl fit command goes on"


class Listed(NamedTuple):
    """What the pictures are for, ready to be written, and what there is to say about it."""

    parts: Mapping[str, Part]  # train, val, test, unlabeled
    class_names: tuple[str, ...]
    measured_on: Origin
    remarks: tuple[str, ...]  # sentences for the user and the verdict
    leaks: int  # labelled pictures that are in val or test, too, and were allowed to be


def read(data: str, folders: Folders) -> Source:
    """Find the roles (labeled, unlabeled, val, test) of a folder, a .csv or an .npz."""
    config = open_source.settings_of(data)
    if not isinstance(config, (Folder, csv_list.CsvList, npz.Npz)):
        path = f"./{data}" if Path(data).exists() else "a folder of pictures, a .csv or an .npz"
        raise ConfigError(f"fit takes your own pictures, and {data!r} is the name of a source; give {path}")
    source = pictures.read(config, folders)
    split = make_split(parse_for(config.split, config.name), source)
    roles = {"labeled": split.labeled, "unlabeled": split.unlabeled, "val": split.val, "test": split.test}
    if _same(split.labeled, split.unlabeled):  # what a source without unlabelled pictures trains on instead
        del roles["unlabeled"]
    parts = {role: Part(select(source, rows), labels_of(source, rows)) for role, rows in roles.items() if rows}
    _check_classes(source.class_names, parts["labeled"].labels)
    return Source(parts, source.class_names)


def _same(some: PartRows, others: PartRows) -> bool:
    return len(some) == len(others) == 1 and some[0][0] == others[0][0] and np.array_equal(some[0][1], others[0][1])


def _check_classes(class_names: tuple[str, ...], labels: NDArray[np.int32]) -> None:
    if len(class_names) < 2:
        raise ConfigError(
            f"there is one class only ({class_names[0]}), and whatever is shown would be it; a classifier needs "
            "two classes or more, such as one for pictures of anything else"
        )
    if missing := [name for i, name in enumerate(class_names) if not np.any(labels == i)]:
        raise ConfigError(f"no labelled picture is of {', '.join(missing[:5])}; label some, or leave the class out")
    plain = [name.strip() for name in class_names]
    if len(set(plain)) < len(plain) or "" in plain:
        raise ConfigError("two classes have names that differ in spaces alone, or a name is nothing but spaces")


def examine(source: Source, console: Console) -> Audit:
    """Look at every picture once, and say what was found."""
    found = audit.audit(source, console)
    audit_table.show(found, console)
    return found


def divided(found: Audit, allow_duplicates: bool, seed: int) -> Listed:
    """Leave out what cannot be used, refuse leaks, and give every picture its part."""
    remarks: list[str] = []
    good = {role: np.flatnonzero(_usable(found, role, remarks)) for role in found.surveys}
    leaks = _leaks(found, good)
    if leaks and not allow_duplicates:
        first = found.source.parts["labeled"].images.name(leaks[0])
        raise ConfigError(
            f"labelled: {_pictures(len(leaks))} that {_is(len(leaks))} in val or test, too (the first is {first}): the "
            "result would look better than it is. Remove one of the two, or go on with --allow-duplicates"
        )
    if leaks:
        remarks.append(f"labelled: {_pictures(len(leaks))} in val or test, too: the accuracies are too good")
    good |= _without_copies(found, good, remarks)
    labeled, val = _part(found, "labeled", good), _part(found, "val", good)
    _check_classes(found.source.class_names, labeled.labels)
    _say_several_labels(found, good["labeled"], remarks)
    groups = alike(found.surveys["labeled"], good["labeled"])
    parts = divide(labeled.labels, groups, val.labels, len(good.get("test", ())) > 0, seed)
    chosen = {
        "train": _rows(labeled, parts.train),
        "val": _joined(_rows(labeled, parts.val), _rows(val, parts.val_kept)),
        "test": _joined(_joined(_rows(labeled, parts.test), _rows(val, parts.val_tests)), _part(found, "test", good)),
        "unlabeled": _part(found, "unlabeled", good),
    }
    _say_unasked(chosen["test"].labels, parts.measured_on, found.source.class_names, remarks)
    return Listed(chosen, found.source.class_names, parts.measured_on, tuple(remarks), len(leaks))


def _usable(found: Audit, role: str, remarks: list[str]) -> NDArray[np.bool_]:
    """Which pictures can be read, and listed in a text file."""
    images, survey = found.source.parts[role].images, found.surveys[role]
    named = np.array([_is_text(images.name(i)) for i in range(len(images))], bool)
    if bad := survey.unreadable:
        names = ", ".join(one.name for one in bad[:3]) + (" …" if len(bad) > 3 else "")
        remarks.append(f"{role}: {_pictures(len(bad))} that cannot be read and {_is(len(bad))} left out ({names})")
    if not named.all():
        count = int(np.sum(~named))
        remarks.append(f"{role}: {_pictures(count)} whose name is no text in UTF-8 and that {_is(count)} left out")
    return survey.readable & named


def _pictures(count: int) -> str:
    return f"{count:,} picture{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _leaks(found: Audit, good: Mapping[str, NDArray[np.int64]]) -> list[int]:
    """Rows of labelled pictures whose very pixels are in val or test."""
    forbidden = _digests(found, good, "val") | _digests(found, good, "test")
    digests = found.surveys["labeled"].digests
    return [row for row in good["labeled"].tolist() if digests[row].tobytes() in forbidden]


def _without_copies(
    found: Audit, good: Mapping[str, NDArray[np.int64]], remarks: list[str]
) -> dict[str, NDArray[np.int64]]:
    """Leave out unlabelled pictures that are in any other part, and val pictures that are in test: nobody needs them.

    What is held out may come from the labelled ones: with a copy among the unlabelled, it would be learnt from. And
    what the baseline has learnt from is never strange: copies of it would hide foreign pictures beside them.
    """
    test = _digests(found, good, "test")
    forbidden = {"unlabeled": test | _digests(found, good, "val") | _digests(found, good, "labeled"), "val": test}
    kept = {}
    for role, others in forbidden.items():
        if role in good:
            digests = found.surveys[role].digests
            kept[role] = np.array([row for row in good[role] if digests[row].tobytes() not in others], np.int64)
            if copies := len(good[role]) - len(kept[role]):
                where = "labeled, val or test" if role == "unlabeled" else "test"
                remarks.append(f"{role}: {_pictures(copies)} left out, as {where} has the same")
    return kept


def _digests(found: Audit, good: Mapping[str, NDArray[np.int64]], role: str) -> set[bytes]:
    return {found.surveys[role].digests[row].tobytes() for row in good.get(role, ())}


def _say_several_labels(found: Audit, rows: NDArray[np.int64], remarks: list[str]) -> None:
    labels: dict[bytes, set[int]] = {}
    for row in rows.tolist():
        digest = found.surveys["labeled"].digests[row].tobytes()
        labels.setdefault(digest, set()).add(int(found.source.parts["labeled"].labels[row]))
    if count := sum(len(own) > 1 for own in labels.values()):
        remarks.append(f"labelled: {_pictures(count)} with several labels, all but one of which must be wrong")


def _say_unasked(labels: NDArray[np.int32], origin: Origin, class_names: tuple[str, ...], remarks: list[str]) -> None:
    why = (
        "with too few labelled pictures for it" if origin == "labelled pictures" else f"with no picture in the {origin}"
    )
    asked = set(labels.tolist())
    if unasked := [name for i, name in enumerate(class_names) if i not in asked]:
        names = ", ".join(unasked[:5]) + (" …" if len(unasked) > 5 else "")
        remarks.append(f"not measured, {why} ({len(unasked):,}): {names}")


def _part(found: Audit, role: str, good: Mapping[str, NDArray[np.int64]]) -> Part:
    if role not in found.source.parts:
        images = found.source.parts["labeled"].images
        return _rows(Part(images, found.source.parts["labeled"].labels), np.arange(0))
    return _rows(found.source.parts[role], good[role])


def _rows(part: Part, rows: NDArray[np.int64]) -> Part:
    return Part(select(Source({"train": part}, ()), (("train", rows),)), part.labels[rows])


def _joined(one: Part, other: Part) -> Part:
    if not len(one.images) or not len(other.images):
        return one if len(one.images) else other
    source = Source({"one": one, "other": other}, ())
    rows = (("one", np.arange(len(one.images))), ("other", np.arange(len(other.images))))
    return Part(select(source, rows), np.concatenate([one.labels, other.labels]))


def write(listed: Listed, out: Path) -> None:
    """Write the list, or the arrays; whole or not at all."""
    with explaining_disk_errors(out, GOES_ON):
        if isinstance(listed.parts["train"].images, Files):
            write_atomically(out / LIST, _csv(listed).encode())
        else:
            write_atomically(out / ARRAYS, _npz(listed))


def settings(out: Path, size: int) -> PictureConfig | None:
    """The source that the runs train on; None where it is not written yet."""
    if (out / LIST).is_file():
        return csv_list.CsvList(file=str((out / LIST).absolute()), outside=True, size=size)
    if (out / ARRAYS).is_file():
        return npz.Npz(file=str((out / ARRAYS).absolute()), size=size, max_gigabytes=64.0)
    return None


def _csv(listed: Listed) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["path", "label", "split"])
    for split, part in listed.parts.items():
        images = part.images
        assert isinstance(images, Files)
        for path, label in zip(images.paths, part.labels.tolist(), strict=True):
            writer.writerow([path.absolute(), listed.class_names[label] if label >= 0 else "", split])
    return text.getvalue()


def _npz(listed: Listed) -> bytes:
    arrays: dict[str, NDArray[np.generic]] = {"class_names": np.array(listed.class_names)}
    for split, prefix in (("train", ""), ("val", "val_"), ("test", "test_")):
        part = listed.parts[split]
        if len(part.images):
            arrays |= {f"{prefix}images": _array(part.images), f"{prefix}labels": part.labels}
    if len(listed.parts["unlabeled"].images):
        arrays["unlabeled"] = _array(listed.parts["unlabeled"].images)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _array(images: Images) -> NDArray[np.uint8]:
    assert isinstance(images, InMemory)
    return images.array
