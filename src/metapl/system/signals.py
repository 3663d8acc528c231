"""How a run is asked to stop: SIGTERM, SIGINT (Ctrl-C) and SIGHUP are noted, and the loop looks between its pieces.

A second SIGINT leaves at once. Python calls its handlers only between two of its own instructions, which may be minutes
apart while a program is compiled, so a thread reads the signals as they come: it answers at once, whatever the loop is
doing.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_END = 0  # no signal has this number


class Stopped(Exception):  # noqa: N818 (someone wished it so)
    """The run ended because it was asked to; its text is one sentence for the user."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + number  # as a shell has it


class Stop:
    """Whether someone has asked the run to stop, and how."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None


@contextmanager
def listening(tell: Callable[[str], None], leave: Callable[[], object] = lambda: None) -> Iterator[Stop]:
    """Note signals while the block lasts; `leave` tidies up what a sudden end would leave behind, as on a terminal."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():  # only there can signals be listened to
        yield stop
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_read, args=(reader, stop, tell, leave), name="signals", daemon=True)
    thread.start()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    waking = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup, or a shell's background job: someone does not want it to be heard
            signal.signal(number, lambda *_: None)
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.write(writer, bytes([_END]))
        thread.join()
        os.close(reader)
        os.close(writer)


def _read(reader: int, stop: Stop, tell: Callable[[str], None], leave: Callable[[], object]) -> None:
    while (number := os.read(reader, 1)[0]) != _END:
        if number not in SIGNALS:
            continue
        if stop.asked is None:
            stop.asked = signal.Signals(number)
            again = "; press Ctrl-C again to leave at once" if number == signal.SIGINT else ""
            tell(f"{stop.asked.name}: stopping after the current piece of steps, with a checkpoint{again}")
        elif number == signal.SIGINT:
            leave()
            print("\nmetapl: left at once, without a checkpoint", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(128 + signal.SIGINT)
