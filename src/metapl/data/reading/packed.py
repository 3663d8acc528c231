"""Encoded pictures that lie one after another in larger files (shards), decoded when they are needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.data.reading.decode import BadImage, decode_bytes

_MAX_BYTES = 1 << 28  # of one encoded picture: 256 MB; more is damaged or not a picture


class Place(NamedTuple):
    """Where a picture's bytes are, and the picture's name inside its shard."""

    member: str
    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class Packed:
    """Encoded pictures in shards; always RGB, of any sizes."""

    shards: tuple[Path, ...]
    """The user's files."""
    stores: tuple[Path, ...]
    """For each shard the file that holds the bytes: itself, or a copy whose bytes can be found by their place."""
    shard: NDArray[np.int32]  # [N] which of the files
    offset: NDArray[np.int64]  # [N] where the picture starts in the store
    size: NDArray[np.int64]  # [N] bytes
    members: NDArray[np.bytes_]  # [N] the picture's name inside the shard, as UTF-8

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.reduced(index, 0)

    def reduced(self, index: int, shorter: int) -> NDArray[np.uint8]:
        """The picture; a JPEG may come reduced, with at least `shorter` pixels on its shorter side."""
        return decode_bytes(self.encoded(index), self.name(index), shorter)

    def encoded(self, index: int) -> bytes:
        """The picture's bytes as they are stored. The file is opened each time, so that workers share nothing."""
        size = int(self.size[index])
        if size > _MAX_BYTES:
            raise BadImage(self.name(index), f"{size:,} bytes, more than the {_MAX_BYTES:,} that a picture may have")
        try:
            with self.stores[self.shard[index]].open("rb", buffering=0) as file:
                file.seek(self.offset[index])
                data = file.read(size)
        except OSError as error:
            raise BadImage(self.name(index), error.strerror or str(error)) from None
        if len(data) < size:
            raise BadImage(self.name(index), "the file was cut off after it was indexed")
        return data

    def name(self, index: int) -> str:
        """The shard and the picture's name inside it, as in shard.tar/picture.jpg or train.parquet/17."""
        return f"{self.shards[self.shard[index]]}/{bytes(self.members[index]).decode('utf-8', 'replace')}"

    def take(self, rows: NDArray[np.int64]) -> "Packed":
        """The pictures of these rows."""
        chosen = self.shard[rows], self.offset[rows], self.size[rows], self.members[rows]
        return Packed(self.shards, self.stores, *chosen)


def from_places(shard: Path, store: Path, places: Sequence[Place]) -> Packed:
    """The pictures of one shard."""
    return Packed(
        (shard,),
        (store,),
        np.zeros(len(places), np.int32),
        np.array([place.offset for place in places], np.int64),
        np.array([place.size for place in places], np.int64),
        np.array([place.member.encode("utf-8", "replace") for place in places], np.bytes_),
    )


def join(chosen: Sequence[Packed]) -> Packed:
    """Several sequences, one after the other."""
    starts = np.cumsum([0] + [len(packed.shards) for packed in chosen[:-1]])
    return Packed(
        tuple(path for packed in chosen for path in packed.shards),
        tuple(path for packed in chosen for path in packed.stores),
        np.concatenate([packed.shard + np.int32(start) for packed, start in zip(chosen, starts, strict=True)]),
        np.concatenate([packed.offset for packed in chosen]),
        np.concatenate([packed.size for packed in chosen]),
        np.concatenate([packed.members for packed in chosen]),
    )
