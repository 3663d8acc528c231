"""Cut off clients that are too slow, on purpose or not: one deadline for a request's head, one for everything."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def protocol(head_s: float, total_s: float) -> type[H11Protocol]:
    """uvicorn's protocol with deadlines: it has none for a request's head, nor for a client that does not read."""

    class WithDeadlines(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadlines = [
                self.loop.call_later(head_s, self._cut_off_if_silent),
                self.loop.call_later(total_s, transport.abort),
            ]

        def connection_lost(self, exc: Exception | None) -> None:
            for deadline in self._deadlines:
                deadline.cancel()
            super().connection_lost(exc)

        def _cut_off_if_silent(self) -> None:
            begun: Any = self.cycle  # None until a request's head is complete
            if begun is None:
                self.transport.abort()

    return WithDeadlines
