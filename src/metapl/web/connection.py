"""Answer one request for each connection: what all addresses have in common. Errors are JSON with a sentence."""

import io
import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from metapl.web import guard
from metapl.web.deadline import DeadlineReader, drain
from metapl.web.guard import Refused

if TYPE_CHECKING:
    from metapl.web.server import Server

READ, POST = ("GET", "HEAD"), ("POST",)
HTML = "text/html; charset=utf-8"
# Only this server's own files; blob: is the picture that the user has just chosen. A reply may have its own policy.
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
    """What the server sends back."""

    status: HTTPStatus
    kind: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def as_json(value: Any, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Reply:
    """A reply in JSON, for programs."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Reply(status, "application/json; charset=utf-8", text.encode("utf-8", "replace") + b"\n", headers or {})


class Connection(BaseHTTPRequestHandler):
    """Answers one request of one connection; a subclass says in `reply` what is at which address."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "metapl", ""
    verb: ClassVar[str] = "serve"  # the command that errors are printed for

    def reply(self, path: str) -> Reply:
        """What is at this address; raise `Refused` if there is nothing, or if the request is not allowed."""
        raise NotImplementedError

    def setup(self) -> None:
        """Read with a deadline for the whole head of the request."""
        super().setup()
        self.rfile.close()
        self.deadline = DeadlineReader(self.connection, self.server.limits.head_s)
        self.rfile = io.BufferedReader(self.deadline)
        self.unread = False

    def finish(self) -> None:
        """Let the client read its reply, even if it is still sending."""
        super().finish()
        if self.unread:
            drain(self.connection, self.server.limits.linger_s)

    def _answer(self) -> None:
        self.unread = guard.has_body(self.headers)
        try:
            reply = self._checked_reply()
        except Refused as refused:
            reply = as_json({"error": refused.sentence}, refused.status, refused.headers)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # the server must go on, whatever went wrong with this request
            self.server.complain(f"{type(error).__name__}: {error}")
            reply = as_json({"error": "the server failed at this request"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(reply)

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 (http.server's names)
    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _answer  # noqa: N815 (refused with a sentence)

    def _checked_reply(self) -> Reply:
        guard.check_host(self.headers, self.server.host)
        guard.check_origin(self.headers, self.command)
        return self.reply(self.path.partition("?")[0])

    def allow(self, methods: tuple[str, ...]) -> None:
        """Refuse all HTTP methods but these."""
        if self.command not in methods:
            words = " or ".join(methods)
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"this address takes {words}", Allow=", ".join(methods))

    def _send(self, reply: Reply) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # http.server sends no status and headers to HTTP/0.9 clients
        self.connection.settimeout(self.server.limits.body_s)  # a client that reads too slowly is cut off
        self.send_response(reply.status)
        for name, value in (_HEADERS | dict(reply.headers)).items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def handle_expect_100(self) -> bool:
        """Send no "100 Continue" yet: the headers are checked first."""
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what http.server itself refuses: lines that are not HTTP, too long, or too many."""
        del explain
        self.unread = True
        status = HTTPStatus(code)
        self._send(as_json({"error": f"the request is not understood: {message or status.phrase}"}, status))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: text that a client sends must not reach the terminal."""
