"""What a source gives: pictures as sequences, labels, class names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.schema import ConfigError


class Images(Protocol):
    """A sequence of pictures."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...

    def name(self, index: int) -> str:
        """How errors and audits call a picture."""


class BadImage(ConfigError):  # noqa: N818
    """A picture that cannot be read."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple[type["BadImage"], tuple[str, str]]:
        return BadImage, (self.name, self.reason)


@dataclass(frozen=True)
class InMemory:
    """Pictures in one array [N, H, W, C]."""

    array: NDArray[np.uint8]
    prefix: str = ""

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.array[index]

    def name(self, index: int) -> str:
        return f"{self.prefix}{index}"


@dataclass(frozen=True)
class Files:
    """Pictures in files, decoded to RGB when they are asked for."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        try:
            with Image.open(self.paths[index]) as image:
                return np.asarray(image.convert("RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise BadImage(self.name(index), str(error)) from None

    def name(self, index: int) -> str:
        return str(self.paths[index])


class Part(NamedTuple):
    """Pictures with their labels; −1: unlabelled."""

    images: Images
    labels: NDArray[np.int32]


class Source(NamedTuple):
    """Named parts ("train", "test", "unlabeled", …) and the classes' names."""

    parts: Mapping[str, Part]
    class_names: tuple[str, ...]
