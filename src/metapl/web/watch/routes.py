"""What `metapl watch` has at which address: the page, what stands on it, and which version that is."""

from http import HTTPStatus
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from metapl.report.html import policy
from metapl.web.connection import HTML, READ, Connection, Reply, as_json
from metapl.web.guard import Refused
from metapl.web.watch.following import Following

PATIENCE_S = 20.0  # for which a browser waits for something new before it asks again


class Handler(Connection):
    """Read, and nothing else: no address leads to a file."""

    verb: ClassVar[str] = "watch"

    def reply(self, path: str) -> Reply:
        """Three addresses, and one that browsers ask for on their own account."""
        following: Following = self.server.service
        self.allow(READ)
        if path == "/":
            headers = {"Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'"}
            return Reply(HTTPStatus.OK, HTML, following.page().encode(), headers)
        if path == "/body":
            return Reply(HTTPStatus.OK, HTML, following.body().encode())
        if path == "/version":
            have = parse_qs(urlsplit(self.path).query).get("have", [""])[0]
            return as_json(following.version(have, PATIENCE_S))
        if path == "/favicon.ico":
            return Reply(HTTPStatus.NO_CONTENT, HTML, b"")
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
