"""The page: one file that asks nobody for anything, not even where its policy would let it.

`metapl watch` shows the same page, with one more script in it, which asks the server that the page came from.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from metapl.report.blocks import Block, Cell, Figure, Gallery, Heading, Moving, Progress, Section, Table, Text
from metapl.report.escape import markup


def page(title: str, blocks: Sequence[Block], more: Sequence[str] = ()) -> str:
    """Write the whole page; style and script stand in it, and its policy knows them by their checksums.

    `more` names what a page has besides what all have: "moons" for moons.css and moons.js.
    """
    return _document(title, f"<main>\n{body(title, blocks)}\n</main>", False, more)


def live_page(title: str, content: str, version: int) -> str:
    """The page around a `body` that its first script keeps up to date, before the second one has touched it."""
    main = f'<p id="connection" class="warning" role="status" hidden></p>\n<main data-version="{version}">'
    return _document(title, f"{main}\n{content}\n</main>", True)


def policy(live: bool = False, more: Sequence[str] = ()) -> str:
    """What a browser lets the page do: it has its own style and scripts, and a live one asks its own server."""
    known = " ".join(f"'{_checksum(script)}'" for script in _scripts(live, more))
    asks = "connect-src 'self'; " if live else ""
    own = f"style-src '{_checksum(_together('css', more))}'; script-src {known}"
    return f"default-src 'none'; {own}; img-src data:; {asks}base-uri 'none'; form-action 'none'"


def body(title: str, blocks: Sequence[Block]) -> str:
    """What stands on the page, without style and script."""
    return f"<h1>{markup(title)}</h1>\n{_all(blocks)}"


def _document(title: str, main: str, live: bool, more: Sequence[str] = ()) -> str:
    scripts = "".join(f"<script>{script}</script>" for script in _scripts(live, more))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(live, more)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{markup(title)}</title>\n<style>{_together('css', more)}</style>\n</head>\n<body>\n{main}\n"
        f"{scripts}\n</body>\n</html>\n"
    )


def _scripts(live: bool, more: Sequence[str]) -> list[str]:
    """The one that follows a run comes first: it keeps what was sent, before the other touches it."""
    return [*([_file("live.js")] if live else []), _together("js", more)]


def _together(kind: str, more: Sequence[str]) -> str:
    return "".join(_file(f"{name}.{kind}") for name in ("page", *more))


def _all(blocks: Iterable[Block]) -> str:
    """Figures that follow each other stand side by side where there is room."""
    parts: list[str] = []
    for block in blocks:
        part = _block(block)
        if isinstance(block, Figure) and parts and parts[-1].endswith("</figure></div>"):
            parts[-1] = parts[-1].removesuffix("</div>") + part + "</div>"
        else:
            parts.append(f'<div class="figures">{part}</div>' if isinstance(block, Figure) else part)
    return "\n".join(parts)


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{markup(text)}</h2>"
        case Progress(text, done, total):
            bar = f'<progress value="{done}" max="{total}" aria-label="{markup(text)}"></progress>'
            return f'<div class="progress"><p>{markup(text)}</p>{bar}</div>'
        case Text(text, kind):
            return f'<p class="{kind}">{markup(text)}</p>'
        case Table():
            return _table(block)
        case Figure():
            said = f"<figcaption>{markup(block.title)}</figcaption>"
            return f'<figure>{said}{block.svg}<p class="note">{markup(block.description)}</p></figure>'
        case Gallery():
            return _gallery(block)
        case Moving():
            return f"<section><h3>{markup(block.title)}</h3>{block.html}</section>"
        case Section():
            state = " open" if block.open else ""
            head = f"<summary><h2>{markup(block.title)}</h2></summary>"
            return f'<details id="{markup(block.anchor)}"{state}>{head}\n{_all(block.blocks)}\n</details>'


def _table(table: Table) -> str:
    width = len(table.columns)
    kinds = [' class="number"' if any(row[i].value is not None for row in table.rows) else "" for i in range(width)]
    head = "".join(
        f'<th scope="col"{kind}>{markup(name)}</th>' for name, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "\n".join(f"<tr>{''.join(map(_cell, row, kinds))}</tr>" for row in table.rows)
    caption = f"<caption>{markup(table.title)}</caption>"
    frame = f'<div class="wide" tabindex="0" role="region" aria-label="{markup(table.title)}">'
    return f"{frame}<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"


def _cell(cell: Cell, kind: str) -> str:
    text = markup(cell.text)
    if cell.anchor:
        text = f'<a href="#{markup(cell.anchor)}">{text}</a>'
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{kind}{value}>{text}</td>"


def _gallery(gallery: Gallery) -> str:
    shown = "".join(
        f'<li><img src="{markup(one.data)}" alt="{markup(one.caption)}">{one.drawing}<span aria-hidden="true">'
        f"{markup(one.caption)}</span></li>"
        for one in gallery.pictures
    )
    kind = "gallery drawn" if any(one.drawing for one in gallery.pictures) else "gallery"
    head = f'<h3>{markup(gallery.title)}</h3><p class="note">{markup(gallery.description)}</p>'
    return f'<section>{head}<ul class="{kind}">{shown}</ul></section>'


def _file(name: str) -> str:
    return resources.files("metapl.report").joinpath("page", name).read_text("utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
