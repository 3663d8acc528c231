"""The server behind `metapl serve` and `metapl watch`: it limits connections and pictures, and stops when asked to."""

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
from typing import Any

from metapl.schema import ConfigError
from metapl.web.connection import Connection
from metapl.web.serve.routes import ServeHandler

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
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


class Server(socketserver.ThreadingMixIn, HTTPServer):
    """A thread for each connection, up to a limit. It takes its address at once, and listens from `start` on."""

    daemon_threads = True  # a client that hangs does not keep the process alive
    request_queue_size = 64

    service: Any  # what the handler shows: a `ServedNetwork` or a `LivePage`

    def __init__(self, host: str, port: int, limits: Limits, handler: type[Connection] = ServeHandler) -> None:
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
                f"{host} port {port} cannot be used: {error.strerror or error}; --port 0 takes any free port"
            ) from None
        except OverflowError:
            self.server_close()
            raise ConfigError(f"--port takes 0 to 65535, got {port}") from None

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name, as the base class does: that can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        name = f"[{self.host}]" if self.address_family == socket.AF_INET6 else self.host
        return f"http://{name}:{self.server_port}/"

    def start(self, service: Any) -> None:
        """Accept requests in a thread of its own."""
        self.service = service
        self.server_activate()
        self._accepting = threading.Thread(target=self.serve_forever, args=(0.1,), name="accepting", daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """Accept no more requests; wait up to `stop_s` for the open ones."""
        self.shutdown()
        self._accepting.join()
        self.server_close()
        until = time.monotonic() + self.limits.stop_s
        for _ in range(self.limits.connections):
            if not self._seats.acquire(timeout=max(0.0, until - time.monotonic())):
                return

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, or refuse it with 503 if there are too many."""
        if not self._seats.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0)
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # the system has no thread left
            self._seats.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then free the place for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors, except for clients that go away or are too slow."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            self.complain(f"{type(error).__name__}: {error}")

    def complain(self, sentence: str) -> None:
        """Print an error on one line of the terminal."""
        line = "".join(char if char.isprintable() else "�" for char in sentence)
        print(f"metapl {self._verb}: {line}", file=sys.stderr, flush=True)  # noqa: T201


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
