"""The built site: strict, made from the code, and with nothing from elsewhere."""

import functools
import html
import http.server
import os
import re
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest

from metapl.cli import data
from metapl.cli import main as cli

from .pages import ROOT

properdocs = pytest.importorskip("properdocs")
import cli_pages  # noqa: E402 - website/ can be imported only where the docs can be built
import hooks  # noqa: E402
import quotes  # noqa: E402

ELSEWHERE = r"""["']?(?:https?:)?//"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site that .ci/run has just built, or one built here."""
    if built := os.environ.get("METAPL_SITE"):
        return Path(built)
    from properdocs.commands.build import build
    from properdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "properdocs.yml"), site_dir=str(folder), strict=True))
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in site.glob("*.html")}


def test_nothing_comes_from_elsewhere(site, pages):
    """Links may lead to other sites; pictures, styles, scripts and fonts must be the site's own."""
    for name, text in pages.items():
        fetched = re.findall(
            rf"<(?:script|img|link|iframe|source|object|video|audio)\b[^>]*?(?:src|href|data)={ELSEWHERE}", text
        )
        assert not fetched, name
    for path in site.rglob("*.css"):
        text = path.read_text("utf-8")
        assert not re.search(rf"url\(\s*{ELSEWHERE}|@import", text), path
    for path in site.rglob("*.svg"):
        assert not re.search(rf"(?:href|src)={ELSEWHERE}", path.read_text("utf-8")), path


def test_every_link_leads_somewhere(site, pages):
    """Also links that Markdown does not know: those in tables that are made from the code."""
    targets = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        if name == "404.html":  # it is shown at any address, so its links begin at the root of the server
            continue
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text):
            if link.startswith(("http", "mailto:")) or link in ("#", "/", "."):
                continue
            page, _, place = unquote(html.unescape(link)).partition("#")
            assert not page or (site / page).exists(), f"{name}: {link}"
            assert not place or place in targets[page or name], f"{name}: {link}"


def test_every_equation_has_its_line(pages):
    """A line of a file that a page shows is that line, read here in another way."""
    text = pages["equations.html"]
    for equation in [*(f"Equation {n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 12)), "Equations 9 and 10", "Equation 11"]:
        assert f"<strong>{equation}</strong>" in text, equation
    shown = re.findall(r'<code class="line">(.*?)</code><span class="place">(.*?):(\d+) ', text, re.DOTALL)
    assert len(shown) > 30
    for code, path, line in shown:
        lines = (ROOT / path.replace("<wbr>", "")).read_text("utf-8").splitlines()
        first, *others = html.unescape(code).splitlines()
        found = lines[int(line) - 1 : int(line) + len(others)]
        assert [one.strip() for one in found] == [first.strip(), *(one.strip() for one in others)]
    assert not re.search(r"quoted\d+x|\{\{", "".join(pages.values()))


def test_the_command_lines_reference_has_every_verb_and_flag(pages):
    text = html.unescape(pages["cli.html"])
    for verb in [*(name for name in cli.VERBS if name != "data"), *(f"data {name}" for name in data.VERBS)]:
        assert f'id="metapl-{verb.replace(" ", "-")}"' in text
    for flag in ("--budget STR", "--stages.0.method.feedback.estimator", "--per-class INT", "--onnx / --no-onnx"):
        assert flag in text, flag
    flags = {flag for action in cli_pages.parser(["fit"])._actions for flag in action.option_strings}
    assert all(flag in text for flag in flags - {"-h"})


def test_pythons_reference_has_what_people_import(pages):
    text = html.unescape(pages["api.html"])
    for words in (
        "MetaPseudoLabels(",
        "metapl.config.load",
        "metapl.types.Algorithm",
        "Share of the moving average that",
    ):
        assert words in re.sub(r"<[^>]+>", "", text), words


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("{{ quote: src/metapl/none.py }}", "there is no file"),
        ("{{ quote: src/metapl/optim/descent.py :: nothing }}", "has no nothing"),
        ("{{ line: src/metapl/optim/descent.py :: build :: nothing }}", "has 0 statements"),
        ("{{ line: src/metapl/algorithms/mpl.py :: step :: new_ }}", "statements that begin with"),
        ("{{ test: tests/cli/test_main.py :: test_of_nothing }}", "has no test_of_nothing"),
        ("{{ kwote: README.md }}", "kwote"),
    ],
)
def test_a_directive_for_something_missing_ends_the_build(named, said):
    from properdocs.exceptions import PluginError

    class Page:
        class file:  # noqa: N801 - the name that the caller uses
            src_uri = "page.md"

    with pytest.raises(PluginError, match=re.escape(said)):
        hooks.on_page_markdown(named, Page())


def test_a_quote_is_of_the_right_definition():
    found = quotes.quote("src/metapl/algorithms/feedback.py", "Feedback")
    assert found.text.startswith("@dataclass(frozen=True)\nclass Feedback:")
    statement = quotes.quote("src/metapl/algorithms/mpl.py", "step", "update = StudentUpdate")
    assert statement.text.count("\n") > 5  # a statement of several lines is whole


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_load_nothing_from_elsewhere(site, page, width):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page.set_width(width)
        for name in ("index", "how_it_works", "equations", "cli"):
            page.open(f"http://127.0.0.1:{server.server_port}/{name}.html")
            assert not page.scrolls_sideways(), name
            assert page.evaluate("[...document.images].every((one) => one.naturalWidth > 0 && one.alt)"), name
        assert page.errors == []
        assert page.hosts == {f"127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()
        server.server_close()
