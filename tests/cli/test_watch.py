"""`metapl watch` from its flags to its end, and what its server gives to whom."""

import http.client
import os
import shutil
import signal
import threading
from contextlib import closing

import pytest

from metapl.cli import main as cli
from metapl.web.server import Limits, Server
from metapl.web.watch import live_page
from metapl.web.watch.live_page import LivePage
from metapl.web.watch.routes import WATCH
from tests.report.synthetic_runs import line, make


@pytest.fixture
def run(tmp_path):
    return make(tmp_path / "run", lines=[line(10, loss=[2.0])])


PATIENCE_S = 120  # on a busy machine a page takes many seconds; only a test that fails waits so long


def ask(port: int, path: str, method: str = "GET", **headers: str):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as client:
        client.request(method, path, headers=headers)
        reply = client.getresponse()
        return reply.status, reply.headers, reply.read().decode()


@pytest.fixture
def server(run):
    server = Server("127.0.0.1", 0, Limits(stop_s=1), WATCH)
    server.start(LivePage([run]))
    yield server
    server.service.close()
    server.stop()


def test_three_addresses_for_this_machine_and_nothing_else(server, run):
    port = server.port
    status, headers, page = ask(port, "/")
    assert (status, page.count("<script>")) == (200, 2)
    assert (
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        in (headers["Content-Security-Policy"])
    )
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert ask(port, "/body")[2] in page
    assert ask(port, "/version?have=0")[2] == '{"version": "1", "closing": false}\n'
    assert ask(port, "/", Host="evil.example")[0] == 421
    assert ask(port, "/body", Origin="http://evil.example")[0] == 403
    assert ask(port, "/", method="POST")[0] == 405
    for path in ("/config.toml", "/../config.toml", f"/{run}/config.toml", "/body/"):
        assert ask(port, path)[0] == 404


def test_who_waits_for_news_is_told_of_the_end(server):
    found = []
    waiting = threading.Thread(target=lambda: found.append(ask(server.port, "/version?have=1")[2]))
    waiting.start()
    server.service.close()
    waiting.join(PATIENCE_S)
    assert found == ['{"version": "1", "closing": true}\n']


@pytest.fixture
def visit(monkeypatch):
    """Visit the page as soon as there is one, and have `then` happen; watching does not end before that."""
    found: dict = {}
    visited, visitors = threading.Event(), list[threading.Thread]()
    start, is_over = Server.start, LivePage.is_over

    def started(server, service) -> None:
        start(server, service)

        def look() -> None:
            try:
                found["page"] = ask(server.port, "/")[2]
            finally:
                found.get("then", lambda: None)()
                visited.set()

        visitors.append(threading.Thread(target=look))
        visitors[0].start()

    monkeypatch.setattr(Server, "start", started)
    monkeypatch.setattr(LivePage, "is_over", lambda page: visited.is_set() and is_over(page))
    monkeypatch.setattr(live_page, "QUIET_S", 0.2)
    yield found
    visitors[0].join(PATIENCE_S)


def test_a_run_that_has_ended_is_shown_once(run, visit, capsys):
    cli.main(["watch", str(run)])
    said = capsys.readouterr().out
    assert said.startswith("Watching: http://127.0.0.1:")
    assert "run crashed or was killed after 10 of 100 steps" in said
    assert "The runs have ended; the page is served for 60 s" in said
    assert "<h1>run: ended</h1>" in visit["page"]


def test_with_stay_it_lasts_until_a_signal(run, visit, capsys):
    visit["then"] = lambda: threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    cli.main(["watch", str(run), "--stay"])
    assert capsys.readouterr().out.endswith("SIGINT: stopping\n")


def test_with_wait_a_run_may_come_later(tmp_path, visit, monkeypatch, capsys):
    monkeypatch.setattr(live_page, "FIRST_VISIT_S", 0.3)
    made = make(tmp_path / "elsewhere" / "late")
    visit["then"] = lambda: shutil.move(made, tmp_path / "late")  # all of its files at once
    cli.main(["watch", str(tmp_path / "late"), "--wait"])
    said = capsys.readouterr().out
    assert "No run has started there yet: waiting" in said
    assert "late crashed or was killed" in said


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "watch needs a run"),
        (["nowhere"], "there is no run in nowhere; with --wait"),
        (["."], "there is no run in ."),
        (["x" * 300], "there is no run in xxx"),
        (["moons"], "moons is the folder of metapl demo"),
        (["file", "--wait"], "file is not a folder"),
        ([".", "--wait", "--port", "70000"], "port takes"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path, monkeypatch, capsys, flags, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "moons").mkdir()
    (tmp_path / "moons" / "two_moons.html").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(["watch", *flags])
    assert ended.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())
