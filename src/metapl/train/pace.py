"""How many steps the device is given at a time.

A chunk of steps takes about a second: long enough that the work between chunks costs nothing, and short enough that a
request to stop is followed soon. No number depends on its length.
"""

import time
from collections.abc import Callable
from typing import Any

import jax

CHUNK_S = 1.0
GROWTH = 2  # a chunk is at most so many times longer than the one before, in case one measurement is wrong


class ChunkPace:
    """Measures the chunks of one stage; `steps` is how many the next one should have."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps = 1  # the first chunk is compiled, so its time says nothing
        self._clock = clock
        self._seen = clock()
        self._sent: tuple[int, Any] | None = None

    def follow(self, steps: int, result: Any) -> None:
        """Note a chunk that the device was given; wait for the one before it, so that the device always has work."""
        before, self._sent = self._sent, (steps, result)
        if before is None:
            return
        jax.block_until_ready(before[1])
        now = self._clock()
        fitting = before[0] * CHUNK_S / max(now - self._seen, 1e-6)
        self.steps = max(1, min(int(fitting), self.steps * GROWTH))
        self._seen = now
