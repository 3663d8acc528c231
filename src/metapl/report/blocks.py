"""The blocks of a report, before they are HTML or Markdown; both files have the same blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Cell(NamedTuple):
    """One field of a table."""

    text: str
    value: float | None = None  # the number to sort by, if there is one
    anchor: str = ""  # the section of the page that it links to


@dataclass(frozen=True)
class Heading:
    """A heading of a part of the page."""

    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True)
class Table:
    """Rows that a reader can sort by any column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Figure:
    """A drawing; the description says in words what it shows."""

    title: str
    description: str
    svg: str  # made by `svg`, all texts in it escaped


class GalleryPicture(NamedTuple):
    """One picture of a gallery."""

    data: str  # a data: URI
    caption: str
    drawing: str = ""  # vector graphics beside it; the caption says the same in words


@dataclass(frozen=True)
class Gallery:
    """Pictures in a row, each with a caption."""

    title: str
    description: str
    pictures: Sequence[GalleryPicture]


@dataclass(frozen=True)
class Animation:
    """A part that the page's script animates; the description says in words what it shows."""

    title: str
    description: str
    html: str  # complete without the script, all texts in it escaped


@dataclass(frozen=True)
class ProgressBar:
    """How far a run is."""

    text: str
    done: int
    total: int


Plain = Text | Table | Figure | Gallery | Animation


@dataclass(frozen=True)
class Section:
    """A part that can be folded: all about one run."""

    title: str
    anchor: str
    blocks: Sequence[Plain]
    open: bool


Block = Heading | ProgressBar | Plain | Section
