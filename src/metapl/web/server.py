"""The server: so many connections at once, so many pictures at once, and an end when it is asked to."""

import ipaddress
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import HTTPServer
from typing import Any, Protocol

from metapl.schema import ConfigError
from metapl.web.connection import Connection
from metapl.web.serve.handler import Handler

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Service(Protocol):
    """What is served: it is called from many threads."""

    def predict(self, picture: bytes) -> dict[str, Any]:
        """What the network says of an encoded picture; `BadImage` if it is none."""

    def model(self) -> dict[str, Any]:
        """What is known of the network."""

    def example(self, index: int) -> bytes | None:
        """A labelled example as PNG; None if there is none with this number."""


@dataclass(frozen=True)
class Limits:
    """How much the server takes upon itself."""

    max_bytes: int = 20_000_000
    """Of one picture."""
    connections: int = 64
    """At once; who comes next is turned away with 503."""
    uploads: int = 8
    """Pictures that are received or answered at once; the next one gets 503."""
    head_s: float = 10.0
    """For a request's line and headers."""
    body_s: float = 60.0
    """For a picture's bytes, and for a reply to be taken."""
    linger_s: float = 2.0
    """For the rest of what a client sends that has been refused already."""
    stop_s: float = 5.0
    """For what is being answered when the server is asked to stop."""


class Server(socketserver.ThreadingMixIn, HTTPServer):
    """A thread for each connection, up to a limit. It has its address at once, and listens once `start` is called."""

    daemon_threads = True  # a client that hangs does not keep the process
    request_queue_size = 64

    service: Any  # what the handler asks: a `Service` for its own

    def __init__(self, host: str, port: int, limits: Limits, handler: type[Connection] = Handler) -> None:
        self.host, self.limits, self._verb = host, limits, handler.verb
        self.address_family = _family(host)
        self.uploads = threading.BoundedSemaphore(limits.uploads)
        self._seats = threading.BoundedSemaphore(limits.connections)
        super().__init__((host, port), handler, bind_and_activate=False)
        try:
            self.server_bind()
        except OSError as error:
            self.server_close()
            raise ConfigError(
                f"{host} port {port} cannot be had: {error.strerror or error}; --port 0 takes any that is free"
            ) from None
        except OverflowError:
            self.server_close()
            raise ConfigError(f"--port takes 0 to 65535, got {port}") from None

    def server_bind(self) -> None:
        """Without asking a name server what this machine is called, as the base does: that may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    @property
    def address(self) -> str:
        """What to open."""
        name = f"[{self.host}]" if self.address_family == socket.AF_INET6 else self.host
        return f"http://{name}:{self.server_port}/"

    def start(self, service: Any) -> None:
        """Take requests, in a thread of its own."""
        self.service = service
        self.server_activate()
        self._accepting = threading.Thread(target=self.serve_forever, args=(0.1,), name="accepting", daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """Take no more requests; give those that are there a moment."""
        self.shutdown()
        self._accepting.join()
        self.server_close()
        until = time.monotonic() + self.limits.stop_s
        for _ in range(self.limits.connections):
            if not self._seats.acquire(timeout=max(0.0, until - time.monotonic())):
                return

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, if there is a seat."""
        if not self._seats.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0)
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread to be had
            self._seats.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and leave the seat."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away, or are too slow, are no error of ours."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            self.complain(f"{type(error).__name__}: {error}")

    def complain(self, sentence: str) -> None:
        """Tell the one who started the server, on one line."""
        line = "".join(char if char.isprintable() else "�" for char in sentence)
        print(f"metapl {self._verb}: {line}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def signals() -> Iterator[Callable[..., str]]:
    """Note Ctrl-C, SIGTERM and SIGHUP from here on, and give what waits for one, or until something is over: then "".

    The second one does what it always does: whoever cannot wait for the end leaves at once.
    """
    asked: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, _: Any) -> None:
        asked.append(number)
        restore()

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def wait(over: Callable[[], bool] = lambda: False) -> str:
        while (
            not asked and not over()
        ):  # an Event is no help: one that is set by a handler while it is waited for can lock itself out
            time.sleep(0.1)
        return signal.Signals(asked[0]).name if asked else ""

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
