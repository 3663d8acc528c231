"""A source of pictures: sequences of uint8 pictures, their labels, the names of the classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from metapl.data.reading.decode import BadImage as BadImage
from metapl.data.reading.decode import DataError as DataError
from metapl.data.reading.decode import decode_file
from metapl.data.reading.records import Records as Records
from metapl.data.sources import spec
from metapl.data.sources.dataset import SourceConfig


class Images(Protocol):
    """A sequence of pictures."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        """The picture [H, W, C]; C is 3, or 1 if all pictures of the source are grey."""

    def reduced(self, index: int, shorter: int, /) -> NDArray[np.uint8]:
        """The picture; a JPEG may come reduced, with at least `shorter` pixels on its shorter side."""

    def name(self, index: int, /) -> str:
        """The picture's name in errors and audits."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Pictures of one size in one array."""

    array: NDArray[np.uint8]  # [N, H, W, C]
    prefix: str
    """The part's name: picture 17 of "train" is "train[17]"."""
    places: tuple[tuple[str, NDArray[np.int64]], ...] = ()
    """If these are selected pictures: the parts they came from, in order, and the rows in each."""

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.array[index]

    def reduced(self, index: int, shorter: int) -> NDArray[np.uint8]:
        """The picture as it is."""
        del shorter
        return self.array[index]

    def name(self, index: int) -> str:
        """The picture's part and row in its source."""
        at = range(len(self))[index]
        for prefix, rows in self.places:
            if at < len(rows):
                return f"{prefix}[{rows[at]}]"
            at -= len(rows)
        return f"{self.prefix}[{at}]"


@dataclass(frozen=True)
class Files:
    """Picture files, decoded when they are needed; always RGB, of any sizes."""

    paths: tuple[Path, ...]
    root: Path = Path()
    """The folder of the source: a file's path relative to it stays the same if the folder is moved."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return decode_file(self.paths[index])

    def reduced(self, index: int, shorter: int) -> NDArray[np.uint8]:
        """The picture; a JPEG may come reduced, with at least `shorter` pixels on its shorter side."""
        return decode_file(self.paths[index], shorter)

    def name(self, index: int) -> str:
        """The file's path."""
        return str(self.paths[index])


class Part(NamedTuple):
    """Pictures with their labels: one part of a source, or one role of a split."""

    images: Images
    labels: NDArray[np.int32]  # [N]; −1: unlabelled


class Source(NamedTuple):
    """Pictures by part, as published: "train" and, optionally, "test", "val", "unlabeled", "extra"."""

    parts: Mapping[str, Part]
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class PictureConfig(SourceConfig):
    """Base of the settings of every source of pictures."""

    mirrored: ClassVar[bool] = True  # whether a mirrored picture still belongs to its class
    shift_pixels: ClassVar[int] = 4  # how far a picture may be moved without losing its content

    split: str = "given"
    """Which pictures are labelled: "given" (by the source), a split of the paper (cifar10-4k) or source@labels#seed."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the square that each picture is cut and scaled to; 0: as stored, all of one size."""
    feed: Literal["auto", "memory", "files"] = "auto"
    """memory: decode all pictures first; files: each when it is needed (same result); auto: memory if they fit."""
    workers: Annotated[int, Ge(-1)] = -1
    """Processes that decode with feed = files; 0: threads instead; −1: one per core if there are over four, else 0."""

    def check(self) -> None:
        """Refuse a wrong split before any file is read."""
        if self.split != "given":
            spec.parse_for(self.split, self.name)


def unlabeled_labels(count: int) -> NDArray[np.int32]:
    """The labels of unlabelled pictures: −1."""
    return np.full(count, -1, np.int32)
