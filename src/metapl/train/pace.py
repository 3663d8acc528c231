"""How many steps the device is given at a time.

A piece of about a second is long enough that what happens between pieces costs nothing, and short enough that someone
who asks the run to stop is answered soon. Its length changes nothing but the time: no number depends on it.
"""

import time
from collections.abc import Callable
from typing import Any

import jax

PIECE_S = 1.0
GROWTH = 2  # a piece is at most so many times longer than the one before: a single wrong measurement does no harm


class Pace:
    """Follows the pieces of one stage; `steps` is how many the next one should have."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps = 1  # the first piece is compiled: nothing is known of its time
        self._clock = clock
        self._seen = clock()
        self._sent: tuple[int, Any] | None = None

    def follow(self, steps: int, result: Any) -> None:
        """A piece was given to the device; wait until the one before it is done, so that there is always one to do."""
        before, self._sent = self._sent, (steps, result)
        if before is None:
            return
        jax.block_until_ready(before[1])
        now = self._clock()
        fitting = before[0] * PIECE_S / max(now - self._seen, 1e-6)
        self.steps = max(1, min(int(fitting), self.steps * GROWTH))
        self._seen = now
