"""Two processes that compute in turn, so that the ratio of their times is reliable on a noisy machine.

Each side is a child process: in one process, the thread pools of two libraries would disturb each other. While one side
works, the other is stopped by a signal, so that none of its threads takes a core.
"""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP = 3
TURN_S = 1.0  # about how long a turn takes


def serve(about: dict[str, Any], work: Callable[[int], None]) -> None:
    """What a child does: describe the work, then do so many steps for each line of input and print their seconds."""
    work(WARM_UP)
    begin = time.perf_counter()
    work(1)
    _send({**about, "seconds": time.perf_counter() - begin})
    for line in sys.stdin:
        work(1)  # not timed: the caches still hold the other side's data
        begin, used = time.perf_counter(), time.process_time()
        work(int(line))
        _send({"seconds": time.perf_counter() - begin, "processor_s": time.process_time() - used})


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


class Side:
    """A child, as the parent sees it; a new child runs until it is ready, and is then stopped until its turn."""

    def __init__(self, script: Path, settings: dict[str, Any]) -> None:
        self.script = script
        command = [sys.executable, str(script), json.dumps(settings)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._receive()
        self.steps = max(1, round(TURN_S / self.about.pop("seconds")))
        self.child.send_signal(signal.SIGSTOP)

    def turn(self) -> tuple[float, float]:
        """Seconds for one step, by the clock and of all cores together, measured while only this side runs."""
        assert self.child.stdin is not None
        self.child.send_signal(signal.SIGCONT)
        self.child.stdin.write(f"{self.steps}\n")
        self.child.stdin.flush()
        answer = self._receive()
        self.child.send_signal(signal.SIGSTOP)
        return answer["seconds"] / self.steps, answer["processor_s"] / self.steps

    def close(self) -> None:
        """Close the child's input, so that it ends."""
        assert self.child.stdin is not None
        self.child.send_signal(signal.SIGCONT)
        self.child.stdin.close()
        self.child.wait()

    def _receive(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"{self.script} ended early, with code {self.child.wait()}")
        message: dict[str, Any] = json.loads(line)
        return message


def compare(ours: Side, theirs: Side, rounds: int) -> dict[str, Any]:
    """Measure both in each round, in alternating order; a ratio is their seconds over ours: above 1, we are faster."""
    pairs = []
    for round_ in range(rounds):
        first, second = (ours, theirs) if round_ % 2 == 0 else (theirs, ours)
        times = {first: first.turn(), second: second.turn()}
        pairs.append((times[ours], times[theirs]))
    clock, processor = (_summary([(ours[kind], theirs[kind]) for ours, theirs in pairs]) for kind in (0, 1))
    return clock | {"processor": processor}


def _summary(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """Return the ratios of the rounds and the times of each side."""
    ratios = [theirs_s / ours_s for ours_s, theirs_s in pairs]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    (our_s, their_s) = (list(times) for times in zip(*pairs, strict=True))
    return {
        "ratio": {"median": median, "low": low, "high": high, "of_best": min(their_s) / min(our_s)},
        "ours_s": {"median": statistics.median(our_s), "best": min(our_s), "each": our_s},
        "theirs_s": {"median": statistics.median(their_s), "best": min(their_s), "each": their_s},
    }
