"""Read the user's pictures by role, check the classes, and audit the pictures.

Every labelled, val and test picture is audited. The first model waits for this, so of very many or very large
unlabelled pictures, a random part is audited, and only that part is used.
"""

import os
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from metapl.data import open_source, pictures
from metapl.data.audit import audit
from metapl.data.audit import table as audit_table
from metapl.data.audit.audit import Audit
from metapl.data.reading.decode import OTHER_SUFFIXES
from metapl.data.reading.files import Folders
from metapl.data.sources import csv_list, npz, parquet, webdataset
from metapl.data.sources.folder import Folder
from metapl.data.sources.source import Part, Source
from metapl.data.sources.spec import parse_for
from metapl.data.splits.select import select_roles
from metapl.data.splits.split import PartRows, make_split
from metapl.schema import ConfigError

UNLABELED_S = 25.0  # seconds in which unlabelled pictures are checked
OWN_PICTURES = (Folder, csv_list.CsvList, npz.Npz, webdataset.WebDataset, parquet.Parquet)


def read_roles(data: str, folders: Folders) -> Source:
    """Read the user's pictures; the parts of the result are the roles labeled, unlabeled, val, test."""
    config = open_source.settings_of(data)
    if not isinstance(config, OWN_PICTURES):
        path = f"./{data}" if Path(data).exists() else "a folder of pictures, a .csv, .npz, .tar or .parquet"
        raise ConfigError(f"fit takes your own pictures, but {data!r} is the name of a source; give {path}")
    source = pictures.read(config, folders)
    split = make_split(parse_for(config.split, config.name), source)
    roles: dict[str, Part] = {role: part for role, part in select_roles(source, split).items() if split.rows(role)}
    if _same_rows(split.labeled, split.unlabeled):  # the split's substitute for unlabelled pictures
        del roles["unlabeled"]
    check_classes(source.class_names, roles["labeled"].labels)
    return Source(roles, source.class_names)


def _same_rows(left: PartRows, right: PartRows) -> bool:
    return len(left) == len(right) == 1 and left[0][0] == right[0][0] and np.array_equal(left[0][1], right[0][1])


def check_classes(class_names: tuple[str, ...], labels: NDArray[np.int32]) -> None:
    """Refuse a single class, a class without labelled pictures, and names that cannot be told apart."""
    if len(class_names) < 2:
        raise ConfigError(
            f"there is only one class ({class_names[0]}); a classifier needs two or more, for example one more for "
            "pictures of anything else"
        )
    if missing := [name for i, name in enumerate(class_names) if not np.any(labels == i)]:
        raise ConfigError(f"no labelled picture is of {', '.join(missing[:5])}; label some, or remove the class")
    plain = [name.strip() for name in class_names]
    if len(set(plain)) < len(plain) or "" in plain:
        raise ConfigError("two class names differ only in spaces, or a class name has only spaces; rename the class")


def examine(source: Source, console: Console) -> Audit:
    """Read the pictures once, and print the findings; the result's source has those that were read."""
    result = audit.audit(source, console, seconds={"unlabeled": UNLABELED_S})
    audit_table.show(result, console)
    return result


def remark_on_other_files(data: str) -> tuple[str, ...]:
    """Say how many pictures below a folder are of types that are not read."""
    suffixes = (os.path.splitext(name)[1].lower() for _, _, names in os.walk(data) for name in names)
    counts = Counter(suffix for suffix in suffixes if suffix in OTHER_SUFFIXES)
    if not counts:
        return ()
    listed = ", ".join(f"{count:,} {suffix}" for suffix, count in counts.most_common())
    return (f"files of these types are not read: {listed}; convert them to JPEG or PNG",)


def remark_on_unread(source: Source, examined: Audit) -> tuple[str, ...]:
    """Say how many unlabelled pictures are used if they are not all that the source has."""
    if "unlabeled" not in source.parts:
        return ()
    total, used = len(source.parts["unlabeled"].images), len(examined.source.parts["unlabeled"].images)
    if used == total:
        return ()
    return (
        f"unlabeled: {used:,} of {total:,} pictures are used, drawn at random: there was no time to check the others",
    )
