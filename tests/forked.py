"""Start `metapl` by fork: a process that has imported all packages does so, which saves two to three seconds each time.

A test process cannot fork by itself: it has computed something with JAX, whose threads a child would lack.

python -m tests.forked      is that process: requests come from its standard input, answers go to its standard output
"""

import atexit
import functools
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import metapl

ROOT = Path(__file__).parents[1]
# What `train` and `resume` import.
PACKAGES = (
    "grain",
    "metapl.cli.resume",
    "metapl.cli.train",
    "metapl.runs.resume",
    "metapl.runs.start",
    "orbax.checkpoint",
    "sklearn.datasets",
)


class Command:
    """A forked `metapl`, with the part of subprocess.Popen that tests use."""

    _numbers = itertools.count()

    def __init__(self, place: Path, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        self._output = place.with_name(f"{place.name}-{next(self._numbers)}.out")
        wanted = {"place": str(place), "words": words, "environment": {**environment}, "output": str(self._output)}
        self.pid = _ask(wanted)

    def poll(self) -> int | None:
        """The exit code; None while the command runs."""
        if self.returncode is None:
            self.returncode = _ask({"pid": self.pid})
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float = 600) -> tuple[str, None]:
        """Wait for the end; return what was printed."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("metapl", timeout, self._output.read_bytes())
            time.sleep(0.01)
        return self._output.read_text("utf-8", "replace"), None


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that forks; it ends, and ends its children, when this one does."""
    packages = (Path(metapl.__file__).parents[1], ROOT, ROOT / "benchmarks")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, packages))}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def _ask(request: object) -> int | None:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def main() -> None:
    """Start commands, and tell their exit codes, until nobody asks any more."""
    from faults import forked

    for package in PACKAGES:
        importlib.import_module(package)
    children: dict[int, forked.Child] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "words" in request:
            place, output = Path(request["place"]), Path(request["output"])
            child = forked.Child(place, tuple(request["words"]), request["environment"], output)
            children[child.pid] = child
            answer: int | None = child.pid
        else:
            answer = children[request["pid"]].poll()
        print(json.dumps(answer), flush=True)
    for child in children.values():
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
