"""What every request passes before it reaches a page, as ASGI middleware: guards, headers, limits, sentences."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from metapl.web import guard, replies
from metapl.web.guard import Refused

# Only this server's own files; blob: is the picture that the user has just chosen. A reply may have its own policy.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class Shield:
    """The outermost layer: protective headers on every reply, sentences for errors, time limits for slow clients."""

    def __init__(self, app: ASGIApp, send_s: float, linger_s: float, complain: Callable[[str], None]) -> None:
        self._app, self._send_s, self._linger_s, self._complain = app, send_s, linger_s, complain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send, self._send_s, self._linger_s)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            await exchange.reply(replies.error(refused.sentence, refused.status, refused.headers))
        except (ClientDisconnect, ConnectionError, TimeoutError):
            return  # the client is gone, or does not read; uvicorn closes the connection
        except Exception as error:  # the server must go on, whatever went wrong with this request
            self._complain(f"{type(error).__name__}: {error}")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            await exchange.reply(replies.error("the server failed at this request", status))


class _Exchange:
    """One request and its reply."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, send_s: float, linger_s: float) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._send_s, self._linger_s = send_s, linger_s
        headers = Request(scope).headers
        self._unread = guard.has_body(headers) and "expect" not in headers
        self._started = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._unread = self._unread and bool(message.get("more_body"))
        return message

    async def send(self, message: Message) -> None:
        """Send a piece of the reply; before the first one, read what the client still sends, or it misses the reply."""
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            await self._drain()
        async with asyncio.timeout(self._send_s):
            await self._send(message)

    async def reply(self, response: Response) -> None:
        """Send a reply, unless another one has begun."""
        if not self._started:
            with suppress(ConnectionError, TimeoutError):
                await response(self._scope, self.receive, self.send)

    async def _drain(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._linger_s):
                while self._unread:
                    await self.receive()


class Gate:
    """The second layer: the Host and the Origin of every request and, if there is one, the token."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str) -> None:
        self._app, self._host, self._token = app, host, token
        self._cookie = f"metapl-{port}"  # browsers share cookies between the ports of a machine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        guard.check_host(request.headers, self._host)
        guard.check_origin(request.headers, request.method)
        if self._token and not self._knows_token(request):
            if not self._is_token(request.query_params.get("token", "")):
                raise Refused(
                    HTTPStatus.UNAUTHORIZED,
                    "this server needs its token; open the address that metapl has printed, or send the header "
                    "Authorization: Bearer TOKEN",
                    WWW_Authenticate="Bearer",
                )
            here = "/" + scope["path"].lstrip("/")  # //elsewhere would be another machine
            reply = RedirectResponse(here, HTTPStatus.SEE_OTHER)
            reply.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
            await reply(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return True
        return self._is_token(request.cookies.get(self._cookie, ""))

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())
