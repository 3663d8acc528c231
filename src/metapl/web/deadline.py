"""Reading from clients that may be slow, on purpose or not: so many seconds in all, not for each byte."""

import io
import socket
import time
from contextlib import suppress

_BLOCK = 1 << 16


class PatientReader(io.RawIOBase):
    """A socket's incoming bytes until a deadline; a timeout of the socket alone starts anew with every byte."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Have patience for so long from now on."""
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def drain(connection: socket.socket, seconds: float) -> None:
    """Take in what a client still sends after its answer: closed at once, the connection would lose that."""
    until = time.monotonic() + seconds
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while (left := until - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(_BLOCK):
                return
