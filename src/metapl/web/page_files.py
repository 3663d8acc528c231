"""The files of a page: HTML, style, script and icon, which lie in a package of their own."""

from collections.abc import Callable, Mapping
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metapl.report import html

_FILES: Mapping[str, tuple[str, str]] = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def routes(package: str) -> list[BaseRoute]:
    """The addresses of the files in `package`/page; the icon is the same for all pages."""
    return [Route(path, _sender(package, name, kind)) for path, (name, kind) in _FILES.items()]


def _sender(package: str, name: str, kind: str) -> Callable[[Request], Response]:
    """A function that sends a file of the page; its style follows the one that all pages share."""

    def send(request: Request) -> Response:
        del request
        shared = html.page_file("base.css").encode() if name == "page.css" else b""
        home = "metapl.web.serve" if name == "icon.svg" else package
        return Response(shared + resources.files(home).joinpath("page", name).read_bytes(), media_type=kind)

    return send
