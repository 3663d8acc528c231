"""Checks of a request's headers, before any byte of its body is read.

A page of another site can make a browser send requests to this machine. Three checks keep it out. The Host must be an
address of this server, or localhost (an attacker's own name that points here is refused). An Origin must be this
server's own page. And a picture needs a Content-Type that a plain HTML form cannot send.
"""

import ipaddress
import re
from http import HTTPStatus

from starlette.datastructures import Headers

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")
_MOST_DIGITS = 15  # of a Content-Length; a longer number is larger than any limit
_TYPES = re.compile(r"image/[\w.+-]+|application/octet-stream")


class Refused(Exception):  # noqa: N818 (a normal reply, not an error of the program)
    """A request that is refused with a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def check_host(headers: Headers, bound: str) -> None:
    """Refuse requests for other host names than this server's. The port may differ, as it does behind a tunnel."""
    hosts = headers.getlist("Host")
    match = _HOST.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "the request must name one Host")
    name = match["name"].lower().strip("[]").removesuffix(".")
    if name not in ("localhost", bound.lower()) and not _is_address_of(name, bound):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this server answers under its own address only, not under other names of this machine; open the address "
            "that metapl has printed",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_address_of(name: str, bound: str) -> bool:
    """Whether a name is an IP address of this server; unlike a name, an attacker cannot point it to another machine."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not is_loopback(bound)


def check_origin(headers: Headers, method: str) -> None:
    """Refuse requests from another site's page; a user may still follow a link from there."""
    origins, this_server = headers.getlist("Origin"), f"http://{headers.get('Host', '').strip()}"
    from_elsewhere = headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    followed = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
    if any(origin.lower() != this_server.lower() for origin in origins) or (from_elsewhere and not followed):
        raise Refused(HTTPStatus.FORBIDDEN, "pages of other sites may not use this server")


def has_body(headers: Headers) -> bool:
    """Whether the request has a body."""
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0").strip() != "0"


def body_length(headers: Headers, limit: int) -> int:
    """Number of bytes of the picture, from the Content-Length."""
    if "Transfer-Encoding" in headers:
        raise Refused(
            HTTPStatus.LENGTH_REQUIRED, "send the picture in one piece, with its Content-Length, not in chunks"
        )
    lengths = [text.strip() for text in headers.getlist("Content-Length")]
    if not lengths:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "send the picture as the request's body, with its Content-Length")
    if len(lengths) > 1 or not re.fullmatch("[0-9]+", lengths[0], re.ASCII):
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length takes one whole number")
    digits = lengths[0].lstrip("0")
    if len(digits) > _MOST_DIGITS or int(digits or "0") > limit:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the picture is larger than {limit / 1e6:g} MB")
    if not digits:
        raise Refused(HTTPStatus.BAD_REQUEST, "the picture has no bytes")
    return int(digits)


def check_type(headers: Headers) -> None:
    """Refuse what is not declared as an uncompressed picture; the decoder checks later what the bytes really are."""
    kind = headers.get("Content-Type", "").split(";")[0].strip().lower()
    if not _TYPES.fullmatch(kind):
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "send the picture's bytes as the body, with a Content-Type of image/jpeg, image/png or the like",
        )
    if headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the picture without a Content-Encoding")
