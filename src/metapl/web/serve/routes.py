"""Which page, file or JSON `metapl serve` has at which address."""

import asyncio
import threading
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metapl.data.reading.decode import BadImage
from metapl.web import guard, page_files
from metapl.web.guard import Refused
from metapl.web.replies import JSONReply, Site


def routes() -> list[BaseRoute]:
    """One address takes pictures; all others are for reading."""
    return [
        *page_files.routes("metapl.web.serve"),
        Route("/api/predict", _predict, methods=["POST"]),
        Route("/api/model", _model),
        Route("/api/examples/{number:index}.png", _example),
        Route("/healthz", _ready),
    ]


SERVE = Site("serve", routes)


async def _predict(request: Request) -> Response:
    state: Any = request.app.state
    guard.check_type(request.headers)
    guard.body_length(request.headers, state.limits.max_bytes)
    uploads: threading.BoundedSemaphore = state.uploads
    if not uploads.acquire(blocking=False):
        sentence = "the server is busy with other pictures; try again in a moment"
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, sentence, Retry_After="1")
    try:
        picture = await _body(request, state.limits.body_s)
        return JSONReply(await run_in_threadpool(state.service.predict, picture))
    except BadImage as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error.name}: {error.reason}") from None
    finally:
        uploads.release()


async def _body(request: Request, seconds: float) -> bytes:
    """Read the picture's bytes; h11 makes sure that they are as many as the Content-Length says."""
    try:
        async with asyncio.timeout(seconds):
            return await request.body()
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the picture did not arrive in time") from None
    except ClientDisconnect:
        raise Refused(HTTPStatus.BAD_REQUEST, "the picture was cut off") from None


def _model(request: Request) -> Response:
    state: Any = request.app.state
    return JSONReply(state.service.model() | {"max_bytes": state.limits.max_bytes})


def _example(request: Request) -> Response:
    picture = request.app.state.service.example(request.path_params["number"])
    if picture is None:
        raise Refused(HTTPStatus.NOT_FOUND, "there is no example with this number")
    return Response(picture, media_type="image/png")


def _ready(request: Request) -> Response:
    del request
    return JSONReply({"status": "ready"})
