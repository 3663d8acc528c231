"""One request, one answer, one connection: which path gives what. Errors are JSON with a sentence, too."""

import io
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from metapl.data.decode import BadImage
from metapl.serve import guard
from metapl.serve.guard import Refused
from metapl.serve.patience import PatientReader, drain

if TYPE_CHECKING:
    from metapl.serve.server import Server  # which makes these

_READ, _POST = ("GET", "HEAD"), ("POST",)
_EXAMPLE = re.compile(r"/api/examples/([0-9]{1,9})\.png", re.ASCII)
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# Nothing but this server's own files; blob: is the picture that the user has just chosen.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class Reply(NamedTuple):
    """What is sent back."""

    status: HTTPStatus
    kind: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def as_json(value: Any, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Reply:
    """A reply for programs."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Reply(status, "application/json; charset=utf-8", text.encode("utf-8", "replace") + b"\n", headers or {})


class Handler(BaseHTTPRequestHandler):
    """Answers one request of one connection; the server has the network and the limits."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "metapl", ""

    def setup(self) -> None:
        """Read with a deadline for the whole head of the request."""
        super().setup()
        self.rfile.close()
        self._patient = PatientReader(self.connection, self.server.limits.head_s)
        self.rfile = io.BufferedReader(self._patient)
        self._unread = False

    def finish(self) -> None:
        """Let the client read its answer, even if it is still sending."""
        super().finish()
        if self._unread:
            drain(self.connection, self.server.limits.linger_s)

    def _answer(self) -> None:
        self._unread = guard.has_body(self.headers)
        try:
            reply = self._reply()
        except Refused as refused:
            reply = as_json({"error": refused.sentence}, refused.status, refused.headers)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # whatever it is, the next request must find a server
            self.server.complain(f"{type(error).__name__}: {error}")
            reply = as_json({"error": "the server failed at this request"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(reply)

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 (http.server's names)
    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _answer  # noqa: N815 (refused with a sentence)

    def _reply(self) -> Reply:
        guard.check_host(self.headers, self.server.host)
        guard.check_origin(self.headers, self.command)
        path = self.path.partition("?")[0]
        if path in _FILES:
            self._allow(_READ)
            name, kind = _FILES[path]
            return Reply(HTTPStatus.OK, kind, _file(name))
        if path == "/api/predict":
            self._allow(_POST)
            return self._predict()
        if path == "/api/model":
            self._allow(_READ)
            return as_json(self.server.service.model() | {"max_bytes": self.server.limits.max_bytes})
        if path == "/healthz":
            self._allow(_READ)
            return as_json({"status": "ready"})
        if match := _EXAMPLE.fullmatch(path):
            self._allow(_READ)
            return self._example(int(match[1]))
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def _allow(self, methods: tuple[str, ...]) -> None:
        if self.command not in methods:
            words = " or ".join(methods)
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"this address takes {words}", Allow=", ".join(methods))

    def _predict(self) -> Reply:
        guard.check_type(self.headers)
        length = guard.body_length(self.headers, self.server.limits.max_bytes)
        if not self.server.uploads.acquire(blocking=False):
            sentence = "many pictures are being answered already; try again in a moment"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, sentence, Retry_After="1")
        try:
            return as_json(self.server.service.predict(self._body(length)))
        except BadImage as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error.name}: {error.reason}") from None
        finally:
            self.server.uploads.release()

    def _body(self, length: int) -> bytes:
        """The picture's bytes; who asked whether to send them is told to."""
        if (self.headers["Expect"] or "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
        self._patient.wait(self.server.limits.body_s)
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the picture did not come in time") from None
        self._unread = False
        if len(body) < length:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the picture was cut off after {len(body)} of {length} bytes")
        return body

    def _example(self, index: int) -> Reply:
        picture = self.server.service.example(index)
        if picture is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no example with this number")
        return Reply(HTTPStatus.OK, "image/png", picture)

    def _send(self, reply: Reply) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # http.server leaves out status and headers for what it calls 0.9
        self.connection.settimeout(self.server.limits.body_s)  # a slow reader ends there
        self.send_response(reply.status)
        for name, value in (_HEADERS | dict(reply.headers)).items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def handle_expect_100(self) -> bool:
        """Not yet: the headers are looked at first."""
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses: lines that are no HTTP, too long, too many."""
        del explain
        self._unread = True
        status = HTTPStatus(code)
        self._send(as_json({"error": f"the request is not understood: {message or status.phrase}"}, status))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what a client sends has no place in a terminal."""


def _file(name: str) -> bytes:
    return resources.files("metapl.serve").joinpath("page", name).read_bytes()
