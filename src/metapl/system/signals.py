"""How a run is asked to stop: SIGTERM, SIGINT (Ctrl-C) and SIGHUP are noted, and the loop checks between its chunks.

A second SIGINT ends the process at once. Python calls signal handlers only between two of its own instructions, which
may be minutes apart while a program is compiled. So a thread reads the signals and responds at once.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_END = 0  # no signal has this number


class Stopped(Exception):  # noqa: N818 (it is a request that was followed, not an error)
    """The run ended because it was asked to; its text is one sentence for the user."""

    def __init__(self, what: str, number: int, how_to_go_on: str) -> None:
        super().__init__(f"{what}; {how_to_go_on}")
        self.what, self.signal = what, number
        self.exit_code = 128 + number  # a shell's convention


class Stop:
    """The signal that asked the run to stop; None as long as none came."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None


@contextmanager
def listening(say: Callable[[str], None], clean_up: Callable[[], object] = lambda: None) -> Iterator[Stop]:
    """Note signals while the block runs; `clean_up` is called before a sudden end, to restore the terminal."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield stop
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_read, args=(reader, stop, say, clean_up), name="signals", daemon=True)
    thread.start()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup, or a shell's background job: it stays ignored
            signal.signal(number, lambda *_: None)
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.write(writer, bytes([_END]))
        thread.join()
        os.close(reader)
        os.close(writer)


def _read(reader: int, stop: Stop, say: Callable[[str], None], clean_up: Callable[[], object]) -> None:
    while (number := os.read(reader, 1)[0]) != _END:
        if number not in SIGNALS:
            continue
        if stop.signal is None:
            stop.signal = signal.Signals(number)
            again = "; press Ctrl-C again to end at once" if number == signal.SIGINT else ""
            say(f"{stop.signal.name}: stopping after the current chunk of steps, with a checkpoint{again}")
        elif number == signal.SIGINT:
            clean_up()
            print("\nmetapl: ended at once, without a checkpoint", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(128 + signal.SIGINT)
