"""Two processes that compute in turn, so that a ratio of their times means something on a noisy machine.

Each side lives in a child process: thread pools of two libraries in one process would wait for each other, spinning.
While one side works the other is stopped by a signal, so that no thread of it can take a core.
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
TURN_S = 1.0  # about how long a turn works


def serve(about: dict[str, Any], work: Callable[[int], None]) -> None:
    """Be a child: say what is computed, then answer each number of steps with the seconds that they took."""
    work(WARM_UP)
    begin = time.perf_counter()
    work(1)
    _say({**about, "seconds": time.perf_counter() - begin})
    for line in sys.stdin:
        work(1)  # not timed: the other side has just filled the caches with its own
        begin = time.perf_counter()
        work(int(line))
        _say({"seconds": time.perf_counter() - begin})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


class Side:
    """The parent's end of a child; a new child runs until it is ready, and is stopped from then on."""

    def __init__(self, script: Path, settings: dict[str, Any]) -> None:
        self.script = script
        command = [sys.executable, str(script), json.dumps(settings)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._listen()
        self.steps = max(1, round(TURN_S / self.about.pop("seconds")))
        self.child.send_signal(signal.SIGSTOP)

    def turn(self) -> float:
        """Seconds for one step, measured while this side alone runs."""
        assert self.child.stdin is not None
        self.child.send_signal(signal.SIGCONT)
        self.child.stdin.write(f"{self.steps}\n")
        self.child.stdin.flush()
        seconds: float = self._listen()["seconds"]
        self.child.send_signal(signal.SIGSTOP)
        return seconds / self.steps

    def close(self) -> None:
        """Let the child see the end of its input."""
        assert self.child.stdin is not None
        self.child.send_signal(signal.SIGCONT)
        self.child.stdin.close()
        self.child.wait()

    def _listen(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"{self.script} ended early, with code {self.child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(ours: Side, theirs: Side, rounds: int) -> dict[str, Any]:
    """Alternate, and so does who is first; a ratio is their seconds over ours in one round: above 1 we are faster."""
    pairs = []
    for round_ in range(rounds):
        first, second = (ours, theirs) if round_ % 2 == 0 else (theirs, ours)
        times = {first: first.turn(), second: second.turn()}
        pairs.append((times[ours], times[theirs]))
    ratios = [theirs_s / ours_s for ours_s, theirs_s in pairs]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if rounds > 1 else ratios * 3
    (our_s, their_s) = (list(times) for times in zip(*pairs, strict=True))
    return {
        "ratio": {"median": median, "low": low, "high": high, "of_best": min(their_s) / min(our_s)},
        "ours_s": {"median": statistics.median(our_s), "best": min(our_s), "each": our_s},
        "theirs_s": {"median": statistics.median(their_s), "best": min(their_s), "each": their_s},
    }
