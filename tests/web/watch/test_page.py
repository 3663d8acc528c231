"""The live page in a real browser: it follows the run, and keeps what the reader opened, sorted or focused."""

import json
import time

import pytest

from metapl.system.lock import locked
from metapl.web.server import Limits, Server
from metapl.web.watch import live_page
from metapl.web.watch.live_page import LivePage
from metapl.web.watch.routes import WATCH
from tests.report.synthetic_runs import finish, line, make, settings

CURVE = "document.querySelector('#run-2 figure path.c0').getAttribute('d')"
PLACE = "window.marked.getBoundingClientRect().top"  # in the window, because lines above it may be added or removed
BAR = "document.querySelector('progress')"


@pytest.fixture
def runs(tmp_path):
    for name in "abcd":  # enough runs for sections to be folded
        make(tmp_path / "runs" / name, settings("mpl"), lines=[line(step, loss=[1.0]) for step in (10, 20)])
    return tmp_path / "runs"


@pytest.fixture
def server(runs, monkeypatch):
    monkeypatch.setattr(live_page, "SCAN_S", 0)
    monkeypatch.setattr(live_page, "SHORTEST_S", 0)
    monkeypatch.setattr(live_page, "SHARE", 1e9)
    server = Server("127.0.0.1", 0, Limits(stop_s=1), WATCH)
    with locked(runs / "b"):
        server.start(LivePage([runs]))
        yield server


def change(page, server, expression: str) -> None:
    """Have the server scan until the page shows the change."""
    until = time.monotonic() + 60
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < until, f"{expression} never came true; errors: {page.errors}"
        server.service.tick()


def test_the_page_follows_the_run_and_the_reader_loses_nothing(page, server, runs):
    page.set_width(390)
    page.open(server.address)
    page.evaluate("document.querySelector('#run-2').open = true")
    page.evaluate("document.querySelectorAll('th button')[0].click()")
    page.evaluate("document.querySelectorAll('th button')[0].click()")  # by name, z to a
    page.evaluate("document.querySelectorAll('th button')[0].focus()")
    page.evaluate("document.querySelector('.wide').scrollLeft = 60")
    page.evaluate("window.scrollTo(0, 400); window.marked = document.querySelector('#run-2')")
    curve, place = page.evaluate(CURVE), page.evaluate(PLACE)
    with (runs / "b" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line(40, loss=[3.0])) + "\n")
    change(page, server, f"{BAR}.value === 40")
    assert page.evaluate(CURVE) != curve
    assert page.evaluate("document.title") == "40 % · Watching runs"
    assert page.evaluate("[...document.querySelectorAll('details[open]')].map((one) => one.id)") == ["run-2"]
    assert page.evaluate(f"window.marked.isConnected && {PLACE}") == place
    assert page.evaluate("document.querySelector('th').getAttribute('aria-sort')") == "descending"
    rows = "[...document.querySelector('table').tBodies[0].rows]"
    assert page.evaluate(f"{rows}.map((row) => row.cells[0].innerText)") == ["d", "c", "b", "a"]
    assert page.evaluate(f"{rows}[2].cells[5].innerText") == "40 of 100"
    assert page.evaluate("document.activeElement === document.querySelector('th button')")
    assert page.evaluate("document.querySelector('.wide').scrollLeft") == 60
    make(runs / "e", settings("uda"))  # one more: its row, and its section
    change(page, server, "document.querySelector('#run-5')")
    assert page.evaluate("document.querySelectorAll('th button').length === document.querySelectorAll('th').length")

    finish(runs / "b", {0: 0.875})
    (runs / "b" / "lock").unlink()  # no process holds it any more
    change(page, server, f"!{BAR}")
    assert "b has finished: test accuracy 87.50 %." in page.text("main")
    assert page.text("h1") == "runs: ended"
    assert page.evaluate("document.querySelector('#run-2').open && window.marked.isConnected")
    server.service.close()
    server.stop()
    page.wait_for("document.querySelector('#connection').innerText.includes('metapl watch has ended')")
    assert page.errors == []
    assert page.hosts == {f"127.0.0.1:{server.port}"}
    assert not page.scrolls_sideways()
