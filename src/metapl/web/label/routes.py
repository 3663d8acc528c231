"""Which page, picture or JSON `metapl label` has at which address."""

import json
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metapl.fit.label_file import Decision
from metapl.schema import ConfigError
from metapl.web import page_files
from metapl.web.guard import Refused
from metapl.web.label.queue import LabelQueue
from metapl.web.replies import JSONReply, Site

LONGEST = 10_000  # bytes of a decision


def routes() -> list[BaseRoute]:
    """One address takes decisions; all others are for reading."""
    return [
        *page_files.routes("metapl.web.label"),
        Route("/api/pictures", _pictures),
        Route("/api/pictures/{number:index}.png", _picture),
        Route("/api/pictures/{number:index}", _decide, methods=["POST"]),
    ]


LABEL = Site("label", routes)


def _queue(request: Request) -> LabelQueue:
    queue: LabelQueue = request.app.state.service
    return queue


def _pictures(request: Request) -> Response:
    try:
        return JSONReply(_queue(request).state())
    except ConfigError as error:  # the file of labels was damaged meanwhile
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None


def _picture(request: Request) -> Response:
    picture = _queue(request).png(request.path_params["number"])
    if picture is None:
        raise Refused(HTTPStatus.NOT_FOUND, "this picture does not exist or cannot be read")
    return Response(picture, media_type="image/png")


async def _decide(request: Request) -> Response:
    """Take a decision as JSON; a plain HTML form of another site cannot send this type."""
    if request.headers.get("Content-Type", "").split(";")[0].strip().lower() != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the decision as application/json")
    if not request.headers.get("Content-Length", "").isdecimal() or int(request.headers["Content-Length"]) > LONGEST:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a decision has at most {LONGEST:,} bytes")
    decision = _decision(await request.body())
    try:
        decided = await run_in_threadpool(_queue(request).decide, request.path_params["number"], decision)
    except ConfigError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
    except OSError as error:
        raise Refused(HTTPStatus.INSUFFICIENT_STORAGE, f"the decision could not be saved: {error.strerror}") from None
    return JSONReply(decided)


def _decision(body: bytes) -> Decision:
    try:
        values: Any = json.loads(body)
        label, choice = values["label"], values["choice"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, 'send {"label": "cat", "choice": "label"}') from None
    if not isinstance(label, str) or choice not in ("label", "none_of_these", "undo"):
        raise Refused(HTTPStatus.BAD_REQUEST, "choice takes label, none_of_these or undo, and label a text")
    return Decision(label, choice)
