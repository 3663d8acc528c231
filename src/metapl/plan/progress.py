"""Show how long the compiler works and how much memory it uses; stop it before the machine runs out of memory."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from metapl.plan.estimate import Say
from metapl.plan.report import amount, duration
from metapl.system import runtime
from metapl.system.terminal import say

EVERY_S = 30.0  # between two lines, if there is no terminal
CHECK_S = 0.5
SHARE = 0.9  # of the machine's memory; beyond it the system kills processes, and not always the right one


@contextmanager
def progress(console: Console) -> Iterator[Say]:
    """Show a status line on a terminal, plain lines elsewhere; a thread does it, because the compiler blocks."""
    doing = ["starting"]
    done = threading.Event()
    begin = time.perf_counter()
    status = console.status("starting") if console.is_terminal else None

    def line() -> str:
        return f"{doing[0]}: {duration(time.perf_counter() - begin)}, {amount(runtime.rss_bytes())}"

    def watch() -> None:
        printed = begin
        while not done.wait(CHECK_S):
            if runtime.rss_bytes() > SHARE * runtime.memory_bytes():
                _give_up(console)
            if status:
                status.update(line())
            elif time.perf_counter() - printed > EVERY_S:
                printed = time.perf_counter()
                say(console, line())

    def note(text: str) -> None:
        doing[0] = text

    watcher = threading.Thread(target=watch, daemon=True)
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
    """End the process at once: the compiler cannot be interrupted."""
    say(
        console,
        f"metapl: the compiler needs more than this machine's {amount(runtime.memory_bytes())}; --model.scan makes the "
        "program smaller, or plan a smaller batch or network",
        style="red",
    )
    os._exit(2)
