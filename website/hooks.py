"""What the site does beyond Markdown: pages name what they quote, and it is put there when they are built.

    {{ quote: PATH }}                            a file
    {{ quote: PATH :: SYMBOL }}                  a function or class of it
    {{ line: PATH :: SYMBOL :: BEGINNING }}      one statement of that, in a line of text
    {{ test: PATH :: NAME }}                     a test's name, if there is such a test
    {{ math: θ_S' = θ_S − η_S ∇_{θ_S} L_u }}     a formula
    {{ include: PATH }}                          the text of another Markdown file
    {{ generate: cli }}, {{ generate: api }}     a reference
    {{ generate: metrics }}                      the table of metrics

What is not there ends the build.
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
_made: dict[str, str] = {}  # what stands for a piece of HTML that Markdown must not touch -> that piece


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in what a page names."""

    def put(match: re.Match[str]) -> str:
        try:
            return _KINDS[match[1]](*match[2].split(" :: "))
        except (KeyError, TypeError, quotes.StaleError) as error:
            raise PluginError(f"{page.file.src_uri}: {match[0]}: {error}") from error

    return _DIRECTIVE.sub(put, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Put the pieces of HTML in their places."""
    return re.sub(r"quoted\d+x", lambda match: _made.get(match[0], match[0]), html)


def _html(piece: str) -> str:
    name = f"quoted{len(_made)}x"
    _made[name] = piece
    return name


def _quote(path: str, symbol: str = "") -> str:
    found = quotes.quote(path, symbol)
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    return f'<p class="place">{html.escape(found.place)}</p>\n\n```{language}\n{found.text}\n```'


def _line(path: str, symbol: str, beginning: str) -> str:
    found = quotes.quote(path, symbol, beginning)
    place = f'<span class="place">{_breakable(f"{path}:{found.first}")} {html.escape(symbol)}</span>'
    return _html(f'<code class="line">{html.escape(found.text)}</code>{place}')


def _test(path: str, name: str) -> str:
    quotes.find(path, name)
    return _html(f'<span class="place">{_breakable(path)}</span><code>{_breakable(name)}</code>')


def _include(path: str) -> str:
    return quotes.quote(path).text


def _generate(name: str) -> str:
    assert algorithms.METHODS  # their own metrics are in the registry once they are imported
    return {"cli": cli_pages.page, "api": api_pages.page, "metrics": metrics.table}[name]()


def _breakable(name: str) -> str:
    """A long name that may go on in the next line after a _ or a /."""
    return re.sub(r"([_/])", r"\1<wbr>", html.escape(name))


_KINDS: dict[str, Callable[..., str]] = {
    "quote": _quote,
    "line": _line,
    "test": _test,
    "math": lambda text: _html(formulas.formula(text)),
    "include": _include,
    "generate": _generate,
}
