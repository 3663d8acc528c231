"""Where a verb looks for data files."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metapl.data.reading.files import Folders


def folders(data_dir: Path | None) -> "Folders":
    """Return the folders to look in: the one that the user names, then the user's cache."""
    from metapl.data.reading import files
    from metapl.system import runtime

    return files.search_folders(data_dir, runtime.cache_folder())
