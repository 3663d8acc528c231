"""What `metapl watch` has at which address: the page, its content, and the number of its version."""

from http import HTTPStatus
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from metapl.report.html import policy
from metapl.web.connection import HTML, READ, Connection, Reply, as_json
from metapl.web.guard import Refused
from metapl.web.watch.live_page import LivePage

WAIT_S = 20.0  # how long a request for a new version may wait; then the browser asks again


class WatchHandler(Connection):
    """Pages for reading only; no address leads to a file."""

    verb: ClassVar[str] = "watch"

    def reply(self, path: str) -> Reply:
        """Three addresses, and the icon that browsers ask for by themselves."""
        live_page: LivePage = self.server.service
        self.allow(READ)
        if path == "/":
            headers = {"Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'"}
            return Reply(HTTPStatus.OK, HTML, live_page.page().encode(), headers)
        if path == "/body":
            return Reply(HTTPStatus.OK, HTML, live_page.body().encode())
        if path == "/version":
            have = parse_qs(urlsplit(self.path).query).get("have", [""])[0]
            return as_json(live_page.version(have, WAIT_S))
        if path == "/favicon.ico":
            return Reply(HTTPStatus.NO_CONTENT, HTML, b"")
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
