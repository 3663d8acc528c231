"""Read from clients that may be slow, on purpose or not: one deadline for all bytes, not a timeout for each."""

import io
import socket
import time
from contextlib import suppress

_BLOCK = 1 << 16


class DeadlineReader(io.RawIOBase):
    """A socket's incoming bytes until a deadline; the socket's own timeout would start again with every byte."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Set the deadline to so many seconds from now."""
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
    """Read what a client still sends after its reply; closing the connection at once would lose the reply."""
    until = time.monotonic() + seconds
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while (left := until - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(_BLOCK):
                return
