"""Find data files, say which are missing, and check that they are the official ones."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from metapl.data.reading.decode import DataError

Folders = Sequence[Path]  # where to look, in this order

_BLOCK = 1 << 20


def search_folders(data_dir: Path | None, cache: Path) -> tuple[Path, ...]:
    """The folders to search: the one that the user named, if any, then `data` in the user's cache folder."""
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"--data-dir {data_dir} is not a folder")
    return (*([data_dir] if data_dir else []), cache / "data")


def find(folders: Folders, *names: str) -> Path | None:
    """The path of the first name that a folder contains, or a folder that has that name itself; None: not found."""
    for folder in folders:
        for name in names:
            if (folder / name).exists():
                return folder / name
            if folder.name == name and folder.exists():
                return folder
    return None


def missing(source: str, names: Iterable[str], origin: str, folders: Folders) -> DataError:
    """An error that says which files are missing, where to get them and where to put them."""
    places = " or ".join(str(folder) for folder in folders)
    return DataError(
        f"{source}: no {' or '.join(names)} in {places}; get it from {origin} and put it into {folders[0]}"
    )


def locate(source: str, text: str, folders: Folders) -> Path:
    """The path of a file or folder that the user named, relative to here or to one of the folders."""
    if path := first_existing(text, folders):
        return path
    raise DataError(f"{source}: there is no {text}, neither here nor in {' or '.join(map(str, folders))}")


def first_existing(text: str, folders: Folders) -> Path | None:
    """The path relative to here, or to the first folder where it exists; None: nowhere."""
    return next((place / text for place in (Path(), *folders) if (place / text).exists()), None)


def open_file(path: Path, md5: str | None = None) -> BinaryIO:
    """Open a data file; refuse an empty file and, if `md5` is given, any file but the official one."""
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
    """Refuse a file whose content is not the official one, then go back to its start."""
    digest = hashlib.md5(usedforsecurity=False)
    while block := file.read(_BLOCK):
        digest.update(block)
    file.seek(0)
    compare_md5(digest.hexdigest(), expected, name)


def compare_md5(actual: str, expected: str, name: str) -> None:
    """Refuse a checksum that differs from the official one."""
    if actual != expected:
        raise DataError(
            f"{name} has the md5 {actual}, but the official file has {expected}: it is damaged or another file; get "
            "it again, or set verify = false to read it anyway"
        )
