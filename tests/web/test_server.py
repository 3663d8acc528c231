"""The server over real sockets: whatever a client sends, it gets a reply, and the server goes on."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import metapl
from metapl.data.reading.decode import BadImage
from metapl.schema import ConfigError
from metapl.web.server import Limits, Server, signals

QUICK = Limits(max_bytes=1000, connections=6, uploads=2, head_s=0.4, body_s=0.4, linger_s=0.4, stop_s=2)
PICTURE = {"Content-Type": "image/png"}
PATIENCE_S = 60  # on a busy machine; only a test that fails waits so long


class Fake:
    """A network that accepts any bytes, and takes as long as the test wants."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked: list[bytes] = []

    def predict(self, picture: bytes) -> dict:
        if picture == b"bad":
            raise BadImage("the picture", "cannot be decoded")
        if picture == b"bug":
            raise RuntimeError("a bug\x1b[31m")
        self.asked.append(picture)
        assert self.go_on.wait(PATIENCE_S)
        return {"length": len(picture), "name": "<script>\udce4 ñ"}

    def model(self) -> dict:
        return {"classes": ["a", "b"]}

    def example(self, index: int) -> bytes | None:
        return b"png" if index < 2 else None


@contextmanager
def running(limits: Limits) -> Iterator[Server]:
    server = Server("127.0.0.1", 0, limits)
    server.start(Fake())
    try:
        yield server
    finally:
        server.service.go_on.set()
        server.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(QUICK) as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of its own, for tests that use up its limits."""
    with running(QUICK) as server:
        yield server


def ask(server: Server, method: str, path: str, body: bytes | None = None, headers: dict | None = None):
    """Send a request; return status, headers and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)) as client:
        client.request(method, path, body, headers or {})
        reply = client.getresponse()
        return reply.status, reply.headers, reply.read()


def say(server: Server, *pieces: bytes, end: bool = False, pause: float = 0) -> bytes:
    """Send raw bytes and return all that comes back; `end` closes the sending side."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        for piece in pieces:
            try:
                client.sendall(piece)
            except ConnectionError:
                break
            time.sleep(pause)
        if end:
            client.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while block := client.recv(65536):
                received += block
        except ConnectionError:
            pass
        return received


def is_well(server: Server) -> bool:
    return ask(server, "GET", "/healthz")[0] == 200


HEAD = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/icon.svg", "/healthz", "/api/model", "/?a=b"])
def test_pages_and_files_can_be_read(server, path):
    status, headers, body = ask(server, "GET", path)
    assert status == 200
    assert body
    assert ask(server, "HEAD", path)[0] == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not any(name.lower().startswith("access-control") for name in headers)


def test_a_head_request_gets_no_body(server):
    received = say(server, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"Content-Length: 0" not in received
    assert received.endswith(b"\r\n\r\n")


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code():
    page = Path(metapl.__file__).parent / "web" / "serve" / "page"
    texts = {file.name: file.read_text("utf-8") for file in page.iterdir()}
    assert not any("//" in line.partition("http://www.w3.org/2000/svg")[2] for line in texts["icon.svg"].splitlines())
    for name in ("page.html", "page.css"):
        assert "http" not in texts[name], name
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
        assert word not in texts["page.js"] + texts["page.html"], word


def test_a_picture_gets_a_prediction(server):
    status, headers, body = ask(server, "POST", "/api/predict", b"picture", PICTURE)
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body) == {"length": 7, "name": "<script>? ñ"}  # characters that are not valid text are replaced
    assert json.loads(ask(server, "GET", "/api/model")[2]) == {"classes": ["a", "b"], "max_bytes": 1000}


def test_a_client_that_expects_continue_gets_it_or_a_refusal(server):
    expecting = HEAD + b"Expect: 100-continue\r\nContent-Length: "
    received = say(server, expecting + b"3\r\n\r\n", b"abc", pause=0.1)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert say(server, expecting + b"3000\r\n\r\n").startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "expected"),
    [
        ("POST", "/api/predict", b"bad", PICTURE, 422),
        ("POST", "/api/predict", b"x" * 1001, PICTURE, 413),
        (
            "POST",
            "/api/predict",
            b"x" * 3_000_000,
            PICTURE,
            413,
        ),  # more than a socket buffers: the client is still sending
        ("POST", "/api/predict", b"", PICTURE, 400),
        ("POST", "/api/predict", b"x", {"Content-Type": "text/plain"}, 415),
        ("POST", "/api/predict", b"x", PICTURE | {"Origin": "http://evil.example"}, 403),
        ("POST", "/api/predict", b"x", PICTURE | {"Host": "evil.example"}, 421),
        ("GET", "/", None, {"Host": "evil.example"}, 421),
        ("GET", "/api/predict", None, {}, 405),
        ("POST", "/", b"x" * 100_000, {}, 405),
        ("DELETE", "/api/model", None, {}, 405),
        ("OPTIONS", "/api/predict", None, {}, 405),
        ("BREW", "/", None, {}, 405),
        ("GET", "/nothing", None, {}, 404),
        ("GET", "/api/examples/2.png", None, {}, 404),
        ("GET", "/api/examples/-1.png", None, {}, 404),
        ("GET", "/api/examples/%2d1.png", None, {}, 404),
        ("GET", "/api/examples/" + "9" * 100 + ".png", None, {}, 404),
        ("GET", "/api/examples/" + "9" * 5_000 + ".png", None, {}, 404),
        ("GET", "/page/../model.py", None, {}, 404),
        ("GET", "/../../etc/passwd", None, {}, 404),
        ("GET", "/api/examples/../../../etc/passwd", None, {}, 404),
        ("GET", "/%2e%2e/server.py", None, {}, 404),
        ("GET", "http://evil.example/", None, {}, 421),
        ("GET", "//evil.example/", None, {}, 404),
    ],
)
def test_a_bad_request_gets_a_status_and_a_sentence(server, method, path, body, headers, expected):
    status, _, text = ask(server, method, path, body, headers)
    assert status == expected
    assert json.loads(text)["error"]
    assert is_well(server)


def test_the_allowed_methods_are_named(server):
    assert ask(server, "PUT", "/api/predict", b"")[1]["Allow"] == "POST"
    assert ask(server, "POST", "/", b"")[1]["Allow"] == "GET, HEAD"


def test_examples_are_found_by_number_only(server):
    status, headers, body = ask(server, "GET", "/api/examples/1.png")
    assert (status, headers["Content-Type"], body) == (200, "image/png", b"png")


@pytest.mark.parametrize(
    ("sent", "end", "expected"),
    [
        (HEAD + b"Content-Length: 9\r\n\r\nshort", True, b""),  # the client is gone
        (HEAD + b"Content-Length: 9\r\n\r\nshort", False, b"HTTP/1.1 408 "),  # the client waits
        (HEAD + b"Content-Length: 3\r\n\r\nlonger than it said", False, b"HTTP/1.1 200 "),
        (HEAD + b"Content-Length: nine\r\n\r\n", False, b"HTTP/1.1 400 "),
        (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", False, b"HTTP/1.1 400 "),
        (HEAD + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n", False, b"HTTP/1.1 413 "),
        (HEAD + b"\r\n", False, b"HTTP/1.1 411 "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False, b"HTTP/1.1 411 "),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", False, b"HTTP/1.1 404 "),  # as for a proxy
        (b"GET / HTTP/1.1\r\n\r\n", False, b"HTTP/1.1 400 "),  # no Host
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", False, b"HTTP/1.1 400 "),
        (b"GET /\r\n\r\n", False, b"HTTP/1.1 400 "),  # HTTP/0.9, without headers
        (b"GET / HTTP/1.0\r\n\r\n", False, b"HTTP/1.1 400 "),  # no Host, which HTTP/1.0 allows
        (b"GET / HTTP/9.9\r\n\r\n", False, b"HTTP/1.1 400 "),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", False, b"HTTP/1.1 400 "),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", False, b"HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", True, b""),  # TLS
        (b"\0" * 100_000, True, b""),
        (b"one two three four five\r\n\r\n", False, b"HTTP/1.1 400 "),
        (b"", True, b""),
        (b"GET / HT", True, b""),
    ],
)
def test_malformed_http_is_refused(server, sent, end, expected, capfd):
    assert say(server, sent, end=end).startswith(expected)
    assert is_well(server)
    assert capfd.readouterr().err == ""


def test_a_slow_client_has_one_deadline(server):
    """With a timeout for each byte, a client that sends a byte now and then would never end."""
    for start in (b"GET / HTTP/1.1\r\nHost: ", HEAD + b"Content-Length: 100\r\n\r\n"):
        began = time.monotonic()
        say(server, start, *[b"x"] * 40, pause=0.4)
        assert time.monotonic() - began < 12
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.settimeout(PATIENCE_S)
        assert silent.recv(100) == b""
    assert is_well(server)


def test_a_client_that_does_not_read_or_goes_away_is_forgotten(server, capfd):
    for _ in range(3):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
        client.sendall(b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.close()
    time.sleep(0.2)
    assert is_well(server)
    assert capfd.readouterr().err == ""


def test_a_bug_gives_a_500_and_one_line_in_the_terminal(server, capfd):
    status, _, body = ask(server, "POST", "/api/predict", b"bug", PICTURE)
    assert status == 500
    assert b"bug" not in body
    assert capfd.readouterr().err == "metapl serve: RuntimeError: a bug�[31m\n"
    assert is_well(server)


def test_too_many_pictures_at_once_get_503(own_server):
    own_server.service.go_on.clear()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(own_server, "POST", "/api/predict", b"x", PICTURE)[0]))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(own_server.service.asked) == 2)
    status, headers, body = ask(own_server, "POST", "/api/predict", b"x", PICTURE)
    assert (status, headers["Retry-After"]) == (503, "1")
    assert "try again" in json.loads(body)["error"]
    assert is_well(own_server)
    own_server.service.go_on.set()
    for thread in threads:
        thread.join()
    assert found == [200, 200]
    assert ask(own_server, "POST", "/api/predict", b"x", PICTURE)[0] == 200


def test_too_many_connections_at_once_are_refused():
    with running(replace(QUICK, head_s=PATIENCE_S)) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(QUICK.connections)]
        wait_until(lambda: ask(server, "GET", "/")[0] == 503)  # until all are accepted
        for client in idle:
            client.close()
        wait_until(lambda: ask(server, "GET", "/")[0] == 200)


def test_a_port_in_use_is_named(server):
    with pytest.raises(ConfigError, match=rf"port {server.port} cannot be used: Address already in use"):
        Server("127.0.0.1", server.port, QUICK)
    with pytest.raises(ConfigError, match="cannot be used"):
        Server("192.0.2.1", 0, QUICK)  # an address reserved for documentation
    with pytest.raises(ConfigError, match="cannot be used"):
        Server("not a name", 0, QUICK)


def test_other_machines_need_the_token():
    server = Server("0.0.0.0", 0, QUICK)
    server.start(Fake())
    try:
        token = server.token
        assert len(token) > 20
        assert server.address == f"http://0.0.0.0:{server.port}/?token={token}"
        for path, headers in (
            ("/", {}),
            ("/api/model", {"Authorization": "Bearer wrong"}),
            ("/api/model", {"Authorization": f"Basic {token}"}),
            ("/api/model", {"Cookie": f"metapl-{server.port}="}),
            ("/?token=", {}),
            ("/?token=%C3%BC", {}),
        ):
            status, _, body = ask(server, "GET", path, headers=headers)
            assert (status, "needs its token" in json.loads(body)["error"]) == (401, True)
            assert token not in body.decode()
        assert ask(server, "POST", "/api/predict", b"x", PICTURE)[0] == 401
        assert server.service.asked == []
        assert ask(server, "GET", "/api/model", headers={"Authorization": f"Bearer {token}"})[0] == 200
        status, headers, _ = ask(server, "GET", f"/?token={token}")
        assert (status, headers["Location"]) == (303, "/")  # the token leaves the browser's address line
        assert ask(server, "GET", f"//example.com/?token={token}")[1]["Location"] == "/example.com/"
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert ask(server, "GET", "/", headers={"Cookie": cookie.partition(";")[0]})[0] == 200
    finally:
        server.stop()
    with closing(Server("127.0.0.1", 0, QUICK)) as local:
        assert local.token == ""


def test_a_client_that_does_not_read_its_reply_is_cut_off(own_server):
    own_server.service.model = lambda: {"classes": ["x" * 1000] * 20_000}  # more than sockets buffer
    with socket.create_connection(("127.0.0.1", own_server.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /api/model HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: own_server._uvicorn.server_state.connections)
        wait_until(lambda: not own_server._uvicorn.server_state.connections, 10)
    assert is_well(own_server)


def test_stopping_waits_for_open_requests():
    server = Server("127.0.0.1", 0, QUICK)
    server.start(Fake())
    server.service.go_on.clear()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(ask(server, "POST", "/api/predict", b"x", PICTURE)[0]))
    thread.start()
    wait_until(lambda: server.service.asked)
    threading.Timer(0.2, server.service.go_on.set).start()
    server.stop()
    thread.join()
    assert found == [200]
    with pytest.raises(ConnectionRefusedError):
        is_well(server)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait(number):
    before = signal.getsignal(number)
    with signals() as wait:
        assert signal.getsignal(number) != before
        threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
        assert wait() == number.name
        assert signal.getsignal(number) == before  # a second signal acts at once


PROGRAM = """
import sys
from metapl.web.server import Limits, Server, signals
server = Server("127.0.0.1", 0, Limits(stop_s=1))
with signals() as wait:
    server.start(None)
    print(server.address, flush=True)
    print(wait(), flush=True)
    server.stop()
assert "jax" not in sys.modules
"""


def test_a_serving_process_ends_on_a_signal():
    environment = os.environ | {"PYTHONPATH": str(Path(metapl.__file__).parents[1])}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        address = process.stdout.readline().strip()
        host, port = address.removeprefix("http://").removesuffix("/").split(":")
        with socket.create_connection((host, int(port))):  # a silent client does not keep it alive
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == "SIGTERM\n"
            assert process.wait(20) == 0


def wait_until(condition, seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
