"""Directives for the site's pages, besides Markdown; the build replaces them.

    {{ quote: PATH }}                            a file
    {{ quote: PATH :: SYMBOL }}                  a function or class of it
    {{ line: PATH :: SYMBOL :: BEGINNING }}      one statement of that, in a line of text
    {{ test: PATH :: NAME }}                     a test's name, if there is such a test
    {{ math: θ_S' = θ_S − η_S ∇_{θ_S} L_u }}     a formula
    {{ include: PATH }}                          the text of another Markdown file
    {{ generate: cli }}, {{ generate: api }}     a reference
    {{ generate: metrics }}                      the table of metrics

The build fails if something that a page names does not exist.
"""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api_pages
import cli_pages
import formulas
import quotes
from properdocs.exceptions import PluginError

from metapl import algorithms, metrics

_DIRECTIVE = re.compile(r"\{\{ (\w+): (.+?) \}\}(?!\})")
_made: dict[str, str] = {}  # placeholder -> the piece of HTML for it, which Markdown must not change


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the directives of a page."""

    def put(match: re.Match[str]) -> str:
        try:
            return _KINDS[match[1]](*match[2].split(" :: "))
        except (KeyError, TypeError, quotes.StaleError) as error:
            raise PluginError(f"{page.file.src_uri}: {match[0]}: {error}") from error

    return _DIRECTIVE.sub(put, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Replace the placeholders by their HTML."""
    return re.sub(r"quoted\d+x", lambda match: _made.get(match[0], match[0]), html)


def _html(piece: str) -> str:
    name = f"quoted{len(_made)}x"
    _made[name] = piece
    return name


def _quote(path: str, symbol: str = "") -> str:
    quote = quotes.quote(path, symbol)
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    return f'<p class="place">{html.escape(quote.place)}</p>\n\n```{language}\n{quote.text}\n```'


def _line(path: str, symbol: str, beginning: str) -> str:
    quote = quotes.quote(path, symbol, beginning)
    place = f'<span class="place">{_breakable(f"{path}:{quote.first}")} {html.escape(symbol)}</span>'
    return _html(f'<code class="line">{html.escape(quote.text)}</code>{place}')


def _test(path: str, name: str) -> str:
    quotes.find(path, name)
    return _html(f'<span class="place">{_breakable(path)}</span><code>{_breakable(name)}</code>')


def _include(path: str) -> str:
    """The file's text; links into docs/ are made relative to the site, where the page itself lies in docs/."""
    return quotes.quote(path).text.replace("](docs/", "](")


def _generate(name: str) -> str:
    assert algorithms.METHODS  # their own metrics are in the registry once they are imported
    return {"cli": cli_pages.page, "api": api_pages.page, "metrics": metrics.table}[name]()


def _breakable(name: str) -> str:
    """HTML of a long name that may break after a _ or a /."""
    return re.sub(r"([_/])", r"\1<wbr>", html.escape(name))


_KINDS: dict[str, Callable[..., str]] = {
    "quote": _quote,
    "line": _line,
    "test": _test,
    "math": lambda text: _html(formulas.formula(text)),
    "include": _include,
    "generate": _generate,
}
