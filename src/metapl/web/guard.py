"""What a request must say of itself before a byte of its body is read: checks of its headers, and nothing else.

A page of another site can make a browser send requests to this machine. It is kept out in three ways: the Host must be
one that only this machine's user can have asked for (a name of the attacker's that points here is refused), an Origin
must be the page's own, and a picture's Content-Type is none that a plain form can send.
"""

import ipaddress
import re
from email.message import Message
from http import HTTPStatus

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")
_DIGITS_OF_ANY_SIZE = 15
_TYPES = re.compile(r"image/[\w.+-]+|application/octet-stream")


class Refused(Exception):  # noqa: N818 (an answer like any other)
    """A request that gets no answer but a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def check_host(headers: Message, bound: str) -> None:
    """Refuse names of this machine that its user did not give it. The port may be another one: that of a tunnel."""
    found = headers.get_all("Host", [])
    match = _HOST.fullmatch(found[0].strip()) if len(found) == 1 else None
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "the request must name one Host")
    name = match["name"].lower().strip("[]").removesuffix(".")
    if name not in ("localhost", bound.lower()) and not _is_address_of(name, bound):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this server answers to its address only, not to other names of this machine; open the address that "
            "metapl has printed",
        )


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_address_of(name: str, bound: str) -> bool:
    """An address cannot be made to point elsewhere, as a name can; who serves on this machine alone has loopback's."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not is_loopback(bound)


def check_origin(headers: Message, method: str) -> None:
    """Refuse what another site's page has asked for; a link on it may still be followed."""
    origins, own = headers.get_all("Origin", []), f"http://{(headers['Host'] or '').strip()}"
    from_elsewhere = headers["Sec-Fetch-Site"] in ("cross-site", "same-site")
    followed = method == "GET" and headers["Sec-Fetch-Mode"] == "navigate"
    if any(origin.lower() != own.lower() for origin in origins) or (from_elsewhere and not followed):
        raise Refused(HTTPStatus.FORBIDDEN, "pages of other sites may not ask this server")


def has_body(headers: Message) -> bool:
    """Does something follow the headers?"""
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0").strip() != "0"


def body_length(headers: Message, limit: int) -> int:
    """How many bytes the picture has."""
    if "Transfer-Encoding" in headers:
        raise Refused(
            HTTPStatus.LENGTH_REQUIRED, "send the picture in one piece, with its Content-Length, not in chunks"
        )
    found = [text.strip() for text in headers.get_all("Content-Length", [])]
    if not found:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "send the picture as the request's body, with its Content-Length")
    if len(found) > 1 or not re.fullmatch("[0-9]+", found[0], re.ASCII):
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length takes one whole number")
    digits = found[0].lstrip("0")
    if len(digits) > _DIGITS_OF_ANY_SIZE or int(digits or "0") > limit:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the picture is larger than {limit / 1e6:g} MB")
    if not digits:
        raise Refused(HTTPStatus.BAD_REQUEST, "the picture has no bytes")
    return int(digits)


def check_type(headers: Message) -> None:
    """Pictures only, and as they are; what the bytes really are, the decoder finds out."""
    kind = (headers["Content-Type"] or "").split(";")[0].strip().lower()
    if not _TYPES.fullmatch(kind):
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "send the picture's bytes as the body, with a Content-Type of image/jpeg, image/png or the like",
        )
    if (headers["Content-Encoding"] or "identity").strip().lower() != "identity":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the picture without a Content-Encoding")
