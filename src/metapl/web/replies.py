"""Replies in JSON, numbers in addresses, and what a site is."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.responses import Response
from starlette.routing import BaseRoute


class _Index(IntegerConvertor):
    """A number that may stand in an address, as `{number:index}`; Python refuses to read one of 5,000 digits."""

    regex = "[0-9]{1,9}"


register_url_convertor("index", _Index())


class JSONReply(Response):
    """A reply in JSON, for programs; characters that are not valid text are replaced."""

    media_type = "application/json; charset=utf-8"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


class Site(NamedTuple):
    """What a verb shows."""

    verb: str  # the command that errors are printed for
    routes: Callable[[], Sequence[BaseRoute]]


def error(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> JSONReply:
    """An error with a sentence."""
    return JSONReply({"error": sentence}, status, headers)
