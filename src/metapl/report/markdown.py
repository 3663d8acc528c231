"""The page as Markdown, for terminals, diffs and wikis: the same words and numbers; a sentence for each drawing."""

from collections.abc import Iterable, Sequence

from metapl.report.blocks import Animation, Block, Figure, Gallery, Heading, ProgressBar, Section, Table, Text
from metapl.system.escape import markdown


def page(title: str, blocks: Sequence[Block]) -> str:
    """The whole text."""
    return "\n\n".join([f"# {markdown(title)}", *_all(blocks, 2)]) + "\n"


def _all(blocks: Iterable[Block], level: int) -> Iterable[str]:
    for block in blocks:
        yield from _block(block, level)


def _block(block: Block, level: int) -> Iterable[str]:
    match block:
        case Heading(text):
            yield f"{'#' * level} {markdown(text)}"
        case ProgressBar(text):
            yield markdown(text)
        case Text(text, kind):
            yield f"**Note:** {markdown(text)}" if kind == "warning" else markdown(text)
        case Table():
            yield f"**{markdown(block.title)}**"
            yield _table(block)
        case Figure() | Animation():
            yield f"*Figure in report.html: {markdown(block.title)}.* {markdown(block.description)}"
        case Gallery():
            captions = "; ".join(markdown(picture.caption) for picture in block.pictures)
            yield f"*Pictures in report.html: {markdown(block.title)}.* {markdown(block.description)} {captions}"
        case Section():
            yield f"{'#' * level} {markdown(block.title)}"
            yield from _all(block.blocks, level + 1)


def _table(table: Table) -> str:
    numbers = [any(row[i].value is not None for row in table.rows) for i in range(len(table.columns))]
    lines = [_row(map(markdown, table.columns)), _row("---:" if number else "---" for number in numbers)]
    return "\n".join(lines + [_row(markdown(cell.text) for cell in row) for row in table.rows])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
