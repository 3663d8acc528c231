"""The server behind `metapl serve` and `metapl watch`: uvicorn with limits, which stops when asked to."""

import ipaddress
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from metapl.schema import ConfigError
from metapl.web import deadline, replies
from metapl.web.guard import is_loopback
from metapl.web.replies import Site
from metapl.web.serve.routes import SERVE
from metapl.web.shield import Gate, Shield

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Limits:
    """How much work the server accepts."""

    max_bytes: int = 20_000_000
    """Largest picture, in bytes."""
    connections: int = 64
    """Connections at once; the next one gets 503."""
    uploads: int = 8
    """Pictures that are received or predicted at once; the next one gets 503."""
    head_s: float = 10.0
    """Seconds for a request's first line and headers."""
    body_s: float = 60.0
    """Seconds for a client to send a picture, and to read a reply."""
    linger_s: float = 2.0
    """Seconds to read what a client still sends after its request was refused."""
    stop_s: float = 5.0
    """Seconds to finish open requests when the server is asked to stop."""


class Server:
    """uvicorn in a thread of its own. It takes its address at once, and listens from `start` on."""

    def __init__(self, host: str, port: int, limits: Limits, site: Site = SERVE) -> None:
        self.host, self.limits, self._site = host, limits, site
        self.service: Any = None  # what the pages show: a `ServedNetwork` or a `LivePage`
        self.token = "" if is_loopback(host) else secrets.token_urlsafe(16)
        self._family = _family(host)
        self._socket = socket.socket(self._family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self.close()
            raise ConfigError(
                f"{host} port {port} cannot be used: {error.strerror or error}; --port 0 takes any free port"
            ) from None
        except OverflowError:
            self.close()
            raise ConfigError(f"--port takes 0 to 65535, got {port}") from None
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """The address to open in a browser; it contains the token, if there is one."""
        name = f"[{self.host}]" if self._family == socket.AF_INET6 else self.host
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def start(self, service: Any) -> None:
        """Accept requests in a thread of its own."""
        self.service = service
        limits = self.limits
        total_s = limits.head_s + 3 * limits.body_s  # to receive, to compute, and to send
        config = uvicorn.Config(
            self._application(),
            http=deadline.protocol(limits.head_s, total_s),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",  # text that a client sends must not reach the terminal
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.connections + 1,
            backlog=64,
            h11_max_incomplete_event_size=1 << 16,
            timeout_graceful_shutdown=limits.stop_s,  # type: ignore[arg-type]
        )
        self._uvicorn = uvicorn.Server(config)
        self._socket.listen(64)
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, name="serving", daemon=True
        )
        self._thread.start()
        while not self._uvicorn.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """Accept no more requests; wait up to `stop_s` for the open ones."""
        self._uvicorn.should_exit = True
        self._thread.join(self.limits.stop_s + 5)
        self.close()

    def close(self) -> None:
        """Give the address back."""
        self._socket.close()

    def complain(self, sentence: str) -> None:
        """Print an error on one line of the terminal."""
        line = "".join(char if char.isprintable() else "�" for char in sentence)
        print(f"metapl {self._site.verb}: {line}", file=sys.stderr, flush=True)  # noqa: T201

    def _application(self) -> Starlette:
        app = Starlette(
            routes=self._site.routes(),
            middleware=[
                Middleware(Shield, self.limits.body_s, self.limits.linger_s, self.complain),
                Middleware(Gate, self.host, self.port, self.token),
            ],
            exception_handlers={HTTPException: _no_such_page},
        )
        app.router.redirect_slashes = False
        app.state.service, app.state.limits = self.service, self.limits
        app.state.uploads = threading.BoundedSemaphore(self.limits.uploads)
        return app


def _no_such_page(request: Request, error: Exception) -> Response:
    """Say what is wrong with an address or a method that no page has."""
    del request
    assert isinstance(error, HTTPException)
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return replies.error("there is nothing at this address", error.status_code)
    methods = sorted((error.headers or {}).get("Allow", "").split(", "))
    return replies.error(f"this address takes {' or '.join(methods)}", error.status_code, {"Allow": ", ".join(methods)})


@contextmanager
def signals() -> Iterator[Callable[..., str]]:
    """Catch Ctrl-C, SIGTERM and SIGHUP; yield a function that waits for one and returns its name.

    The function returns "" if `over()` becomes true first. A second signal ends the program at once, as usual.
    """
    received: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, _: Any) -> None:
        received.append(number)
        restore()

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def wait(over: Callable[[], bool] = lambda: False) -> str:
        # Not an Event: if the handler sets one while this thread waits for it, both can block for ever.
        while not received and not over():
            time.sleep(0.1)
        return signal.Signals(received[0]).name if received else ""

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
            before[number] = signal.signal(number, note)
    try:
        yield wait
    finally:
        restore()


def _family(host: str) -> socket.AddressFamily:
    try:
        return socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return socket.AF_INET
