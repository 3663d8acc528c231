"""Where data files are looked for, what is said when they are missing, and whether they are the official ones."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from metapl.data.reading.decode import DataError

Folders = Sequence[Path]  # where to look, in this order

_BLOCK = 1 << 20


def search_folders(data_dir: Path | None, cache: Path) -> tuple[Path, ...]:
    """The folder that the user named, if any, then `data` in this user's cache folder."""
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"--data-dir {data_dir} is not a folder")
    return (*([data_dir] if data_dir else []), cache / "data")


def find(folders: Folders, *names: str) -> Path | None:
    """The first of the names that is in one of the folders; a folder may also itself be what is looked for."""
    for folder in folders:
        for name in names:
            if (folder / name).exists():
                return folder / name
            if folder.name == name and folder.exists():
                return folder
    return None


def missing(source: str, names: Iterable[str], origin: str, folders: Folders) -> DataError:
    """Say which files are not there, where they come from and where to put them."""
    places = " or ".join(str(folder) for folder in folders)
    return DataError(
        f"{source}: no {' or '.join(names)} in {places}; get it from {origin} and put it into {folders[0]}"
    )


def locate(source: str, text: str, folders: Folders) -> Path:
    """A file or folder that the user named: as it is, or inside one of the folders."""
    for place in (Path(), *folders):
        if (place / text).exists():
            return place / text
    raise DataError(f"{source}: there is no {text}, neither as it is nor in {' or '.join(map(str, folders))}")


def open_file(path: Path, md5: str | None = None) -> BinaryIO:
    """Open a data file; refuse an empty one and, where `md5` is given, one that is not the official one."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty; get it again")
        if md5 is not None:
            check_md5(file, md5, str(path))
    except BaseException:
        file.close()
        raise
    return file


def check_md5(file: BinaryIO, expected: str, name: str) -> None:
    """Refuse a file whose content is not the official one; leaves it at its start."""
    digest = hashlib.md5(usedforsecurity=False)
    while block := file.read(_BLOCK):
        digest.update(block)
    file.seek(0)
    compare_md5(digest.hexdigest(), expected, name)


def compare_md5(found: str, expected: str, name: str) -> None:
    """Refuse what has another checksum than the official one."""
    if found != expected:
        raise DataError(
            f"{name} has the md5 {found}, the official file has {expected}: it is damaged or another file; get it "
            "again, or set verify = false to read it all the same"
        )
