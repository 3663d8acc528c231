"""The page as HTML: one file that loads nothing from anywhere, as its policy demands. page/page.html has its parts.

`metapl watch` shows the same page with one more script, which asks the page's own server for changes.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NoReturn

import jinja2
from markupsafe import Markup

from metapl.report.blocks import Block, Table
from metapl.system.escape import clean


def page(title: str, blocks: Sequence[Block], more: Sequence[str] = ()) -> str:
    """The whole page with its style and script; the policy allows only these, by their checksums.

    `more` names additional files: "moons" for moons.css and moons.js.
    """
    return _document(title, _parts().still(Markup(body(title, blocks))), False, more)


def live_page(title: str, content: str, version: int) -> str:
    """The page around a `body` that its first script keeps up to date."""
    return _document(title, _parts().live(Markup(content), version), True)


def policy(live: bool = False, more: Sequence[str] = ()) -> str:
    """The Content-Security-Policy: the page's own style and scripts; a live page may also ask its own server."""
    scripts = " ".join(f"'{_checksum(script)}'" for script in _scripts(live, more))
    connect = "connect-src 'self'; " if live else ""
    allowed = f"style-src '{_checksum(_style(more))}'; script-src {scripts}"
    return f"default-src 'none'; {allowed}; img-src data:; {connect}base-uri 'none'; form-action 'none'"


def body(title: str, blocks: Sequence[Block]) -> str:
    """The content of the page, without style and script."""
    return str(_parts().body(title, blocks))


def _document(title: str, main: str, live: bool, more: Sequence[str] = ()) -> str:
    document = _parts().document(title, main, policy(live, more), _style(more), _scripts(live, more))
    return str(document)


@cache
def _parts() -> Any:
    """The macros of page.html, which escape all texts."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, finalize=_clean)
    environment.globals |= {"numeric_columns": _numeric_columns, "unknown_block": _unknown_block}
    return environment.from_string(page_file("page.html")).module


def _clean(value: Any) -> Any:
    """Replace characters that cannot be shown, in texts that are not markup already."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _numeric_columns(table: Table) -> list[bool]:
    """Whether each column has numbers."""
    return [any(row[i].value is not None for row in table.rows) for i in range(len(table.columns))]


def _unknown_block(kind: str) -> NoReturn:
    raise TypeError(f"page.html has no block {kind}")


def _scripts(live: bool, more: Sequence[str]) -> list[str]:
    """The script of a live page comes first: it copies the content before the other script changes it."""
    page = "".join(page_file(f"{name}.js") for name in ("page", *more))
    return [*([page_file("live.js")] if live else []), page]


def _style(more: Sequence[str]) -> str:
    return "".join(page_file(f"{name}.css") for name in ("base", "page", *more))


def page_file(name: str) -> str:
    """A style or script of the page."""
    return resources.files("metapl.report").joinpath("page", name).read_text("utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
