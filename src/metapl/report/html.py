"""The page as HTML: one file that loads nothing from anywhere, as its policy demands.

`metapl watch` shows the same page with one more script, which asks the page's own server for changes.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from metapl.report.blocks import Animation, Block, Cell, Figure, Gallery, Heading, ProgressBar, Section, Table, Text
from metapl.system.escape import markup


def page(title: str, blocks: Sequence[Block], more: Sequence[str] = ()) -> str:
    """The whole page with its style and script; the policy allows only these, by their checksums.

    `more` names additional files: "moons" for moons.css and moons.js.
    """
    return _document(title, f"<main>\n{body(title, blocks)}\n</main>", False, more)


def live_page(title: str, content: str, version: int) -> str:
    """The page around a `body` that its first script keeps up to date."""
    main = f'<p id="connection" class="warning" role="status" hidden></p>\n<main data-version="{version}">'
    return _document(title, f"{main}\n{content}\n</main>", True)


def policy(live: bool = False, more: Sequence[str] = ()) -> str:
    """The Content-Security-Policy: the page's own style and scripts; a live page may also ask its own server."""
    scripts = " ".join(f"'{_checksum(script)}'" for script in _scripts(live, more))
    connect = "connect-src 'self'; " if live else ""
    allowed = f"style-src '{_checksum(_style(more))}'; script-src {scripts}"
    return f"default-src 'none'; {allowed}; img-src data:; {connect}base-uri 'none'; form-action 'none'"


def body(title: str, blocks: Sequence[Block]) -> str:
    """The content of the page, without style and script."""
    return f"<h1>{markup(title)}</h1>\n{_all(blocks)}"


def _document(title: str, main: str, live: bool, more: Sequence[str] = ()) -> str:
    scripts = "".join(f"<script>{script}</script>" for script in _scripts(live, more))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(live, more)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{markup(title)}</title>\n<style>{_style(more)}</style>\n</head>\n<body>\n{main}\n"
        f"{scripts}\n</body>\n</html>\n"
    )


def _scripts(live: bool, more: Sequence[str]) -> list[str]:
    """The script of a live page comes first: it copies the content before the other script changes it."""
    page = "".join(page_file(f"{name}.js") for name in ("page", *more))
    return [*([page_file("live.js")] if live else []), page]


def _style(more: Sequence[str]) -> str:
    return "".join(page_file(f"{name}.css") for name in ("base", "page", *more))


def _all(blocks: Iterable[Block]) -> str:
    """All blocks; figures that follow each other are side by side if there is room."""
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
        case ProgressBar(text, done, total):
            bar = f'<progress value="{done}" max="{total}" aria-label="{markup(text)}"></progress>'
            return f'<div class="progress"><p>{markup(text)}</p>{bar}</div>'
        case Text(text, kind):
            return f'<p class="{kind}">{markup(text)}</p>'
        case Table():
            return _table(block)
        case Figure():
            caption = f"<figcaption>{markup(block.title)}</figcaption>"
            return f'<figure>{caption}{block.svg}<p class="note">{markup(block.description)}</p></figure>'
        case Gallery():
            return _gallery(block)
        case Animation():
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
        f'<li><img src="{markup(picture.data)}" alt="{markup(picture.caption)}">{picture.drawing}'
        f'<span aria-hidden="true">{markup(picture.caption)}</span></li>'
        for picture in gallery.pictures
    )
    kind = "gallery drawn" if any(picture.drawing for picture in gallery.pictures) else "gallery"
    head = f'<h3>{markup(gallery.title)}</h3><p class="note">{markup(gallery.description)}</p>'
    return f'<section>{head}<ul class="{kind}">{shown}</ul></section>'


def page_file(name: str) -> str:
    """A style or script of the page."""
    return resources.files("metapl.report").joinpath("page", name).read_text("utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
