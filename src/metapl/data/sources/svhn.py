"""Street View House Numbers, cropped digits (the .mat files); label 10 means the digit 0."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy  # its io is imported when it is first used

from metapl.data.reading import channels, files, mat_file
from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.sources.source import InMemory, Part, PictureConfig, Source

_PAGE = "the Street View House Numbers page of Stanford University (Format 2: cropped digits)"
_MAX_PICTURES = 1_000_000  # the largest file, extra, has 531,131
# The page gives no checksums; the field's libraries agree on these.
_MD5 = {
    "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test": "eb5a983be6a315427106f1b164d9cef3",
    "extra": "a93ce644f1a588dc4d68dda5feec44a7",
}


@dataclass(frozen=True)
class Svhn(PictureConfig):
    """73,257 + 26,032 digits of 32×32 from house numbers, and 531,131 easier ones."""

    name: ClassVar[str] = "svhn"
    mirrored: ClassVar[bool] = False

    extra: bool = True
    """Also read the extra pictures (1.3 GB; 1.6 GB in memory)."""
    verify: bool = True
    """Compare the files with the known checksums."""


def read(config: Svhn, folders: Folders) -> Source:
    """Read train, test and, unless it is turned off, extra."""
    wanted = ("train", "test", "extra") if config.extra else ("train", "test")
    paths = {part: files.find(folders, f"{part}_32x32.mat", f"svhn/{part}_32x32.mat") for part in wanted}
    if lacking := [f"{part}_32x32.mat" for part, path in paths.items() if path is None]:
        hint = (
            " (or go without: --data.no-extra, extra = false under [data] in a file)"
            if lacking == ["extra_32x32.mat"]
            else ""
        )
        raise files.missing(config.name, [" and no ".join(lacking) + hint], _PAGE, folders)
    parts = {part: _read_mat(path, part, config.verify) for part, path in paths.items() if path}
    return Source(parts, tuple("0123456789"))


def _read_mat(path: Path, part: str, verify: bool) -> Part:
    with files.open_file(path, _MD5[part] if verify else None) as file:
        try:
            mat_file.check(file)
            _check_shapes({name: shape for name, shape, _ in scipy.io.whosmat(file)}, path)
            file.seek(0)
            arrays = scipy.io.loadmat(file, variable_names=["X", "y"])
        except DataError:
            raise
        except Exception as error:  # SciPy's reader raises errors of any type on damaged files
            raise DataError(f"{path} cannot be read as a .mat file: {error}") from None
    pixels, labels = arrays.pop("X"), arrays.pop("y").ravel()
    if pixels.dtype != np.uint8 or labels.min() < 1 or labels.max() > 10:
        raise DataError(f"{path} must have bytes in X and labels from 1 to 10 in y")
    # Matlab stores columns first, so the order in memory is that of the reversed axes [N, C, W, H].
    images = channels.to_last(pixels.T, transposed=True)
    return Part(InMemory(images, part), (labels % 10).astype(np.int32))


def _check_shapes(shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    """Check the shapes before anything is unpacked: a small compressed file can claim any size."""
    count = shapes.get("X", (0,))[-1]
    if shapes.get("X") != (32, 32, 3, count) or shapes.get("y") not in ((count, 1), (1, count)):
        raise DataError(f"{path} must have X [32, 32, 3, N] and y [N, 1], got {shapes}")
    if not 0 < count <= _MAX_PICTURES:
        raise DataError(f"{path} claims {count:,} pictures; 1 to {_MAX_PICTURES:,} are allowed")
