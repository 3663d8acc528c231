"""Which page, file or JSON `metapl serve` has at which address."""

import re
from http import HTTPStatus
from importlib import resources

from metapl.data.reading.decode import BadImage
from metapl.report import html
from metapl.web import guard
from metapl.web.connection import HTML, POST, READ, Connection, Reply, as_json
from metapl.web.guard import Refused

_EXAMPLE = re.compile(r"/api/examples/([0-9]{1,9})\.png", re.ASCII)
_FILES = {
    "/": ("page.html", HTML),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


class ServeHandler(Connection):
    """The page, its files, and the JSON endpoint."""

    def reply(self, path: str) -> Reply:
        """One address takes pictures; all others are for reading."""
        if path in _FILES:
            self.allow(READ)
            name, kind = _FILES[path]
            return Reply(HTTPStatus.OK, kind, _file(name))
        if path == "/api/predict":
            self.allow(POST)
            return self._predict()
        if path == "/api/model":
            self.allow(READ)
            return as_json(self.server.service.model() | {"max_bytes": self.server.limits.max_bytes})
        if path == "/healthz":
            self.allow(READ)
            return as_json({"status": "ready"})
        if match := _EXAMPLE.fullmatch(path):
            self.allow(READ)
            return self._example(int(match[1]))
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def _predict(self) -> Reply:
        guard.check_type(self.headers)
        length = guard.body_length(self.headers, self.server.limits.max_bytes)
        if not self.server.uploads.acquire(blocking=False):
            sentence = "the server is busy with other pictures; try again in a moment"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, sentence, Retry_After="1")
        try:
            return as_json(self.server.service.predict(self._body(length)))
        except BadImage as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error.name}: {error.reason}") from None
        finally:
            self.server.uploads.release()

    def _body(self, length: int) -> bytes:
        """Read the picture's bytes; a client that waits for "100 Continue" gets it first."""
        if (self.headers["Expect"] or "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
        self.deadline.restart(self.server.limits.body_s)
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the picture did not arrive in time") from None
        self.unread = False
        if len(body) < length:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the picture was cut off after {len(body)} of {length} bytes")
        return body

    def _example(self, index: int) -> Reply:
        picture = self.server.service.example(index)
        if picture is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no example with this number")
        return Reply(HTTPStatus.OK, "image/png", picture)


def _file(name: str) -> bytes:
    """A file of the page; its style follows the one that all pages share."""
    shared = html.page_file("base.css").encode() if name == "page.css" else b""
    return shared + resources.files("metapl.web.serve").joinpath("page", name).read_bytes()
