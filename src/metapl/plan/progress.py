"""Tell that the compiler is at work, how long and with how much memory; end it before the machine has none left."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from metapl.plan.report import amount, duration
from metapl.plan.run import Say
from metapl.system import runtime
from metapl.system.terminal import say

EVERY_S = 30.0  # between two lines where there is no terminal
LOOK_S = 0.5
SHARE = 0.9  # of the machine's memory; beyond it the system ends processes, and not always the right one


@contextmanager
def progress(console: Console) -> Iterator[Say]:
    """A line that changes on a terminal, plain lines elsewhere, by a thread: the compiler does not look up."""
    doing = ["starting"]
    done = threading.Event()
    begin = time.perf_counter()
    status = console.status("starting") if console.is_terminal else None

    def line() -> str:
        return f"{doing[0]}: {duration(time.perf_counter() - begin)}, {amount(runtime.rss_bytes())}"

    def look() -> None:
        told = begin
        while not done.wait(LOOK_S):
            if runtime.rss_bytes() > SHARE * runtime.memory_bytes():
                _give_up(console)
            if status:
                status.update(line())
            elif time.perf_counter() - told > EVERY_S:
                told = time.perf_counter()
                say(console, line())

    def note(text: str) -> None:
        doing[0] = text

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    if status:
        status.start()
    try:
        yield note
    finally:
        done.set()
        watcher.join()
        if status:
            status.stop()


def _give_up(console: Console) -> None:
    """Leave at once: the compiler hears nothing."""
    say(
        console,
        f"metapl: the compiler has outgrown this machine's {amount(runtime.memory_bytes())}; --model.scan makes the "
        "program smaller, or plan a smaller batch or network",
        style="red",
    )
    os._exit(2)
