"""What a report is made of, before it is HTML or Markdown: both twins say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Cell(NamedTuple):
    """One field of a table."""

    text: str
    value: float | None = None  # what it is sorted by, where that is a number
    anchor: str = ""  # the section of the page that it leads to


@dataclass(frozen=True)
class Heading:
    """Begins a part of the page."""

    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True)
class Table:
    """Rows that a reader may sort by any column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Figure:
    """A drawing; the description says in words what it shows."""

    title: str
    description: str
    svg: str  # made by `svg`, all texts in it escaped


class Picture(NamedTuple):
    """One of a gallery."""

    data: str  # a data: URI
    caption: str
    drawing: str = ""  # vector graphics beside it, which say nothing that the caption does not


@dataclass(frozen=True)
class Gallery:
    """Pictures in a row, each with a caption."""

    title: str
    description: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Moving:
    """What a script of the page's own moves; the description says in words what there is to see."""

    title: str
    description: str
    html: str  # whole without the script, all texts in it escaped


@dataclass(frozen=True)
class Progress:
    """How far something is."""

    text: str
    done: int
    total: int


Plain = Text | Table | Figure | Gallery | Moving


@dataclass(frozen=True)
class Section:
    """What can be folded away: all about one run."""

    title: str
    anchor: str
    blocks: Sequence[Plain]
    open: bool


Block = Heading | Progress | Plain | Section
