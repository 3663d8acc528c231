"""What `metapl watch` has at which address: the page, its content, and the number of its version."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from metapl.report.html import policy
from metapl.web.replies import JSONReply, Site
from metapl.web.watch.live_page import LivePage

WAIT_S = 20.0  # how long a request for a new version may wait; then the browser asks again


def routes() -> list[BaseRoute]:
    """Three addresses for reading only, and the icon that browsers ask for by themselves; none leads to a file."""
    return [
        Route("/", _page),
        Route("/body", lambda request: HTMLResponse(_live_page(request).body())),
        Route("/version", _version),
        Route("/favicon.ico", lambda _: Response(status_code=204)),
    ]


WATCH = Site("watch", routes)


def _live_page(request: Request) -> LivePage:
    page: LivePage = request.app.state.service
    return page


def _page(request: Request) -> Response:
    headers = {"Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'"}
    return HTMLResponse(_live_page(request).page(), headers=headers)


def _version(request: Request) -> Response:
    """Wait for a new version; starlette runs this in a thread."""
    return JSONReply(_live_page(request).version(request.query_params.get("have", ""), WAIT_S))
