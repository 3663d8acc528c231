"""How a run is asked to stop: SIGTERM, SIGINT (Ctrl-C) and SIGHUP are noted, and the loop checks between its chunks.

A second SIGINT ends the process at once. Python calls signal handlers only between two of its own instructions, which
may be minutes apart while a program is compiled. So a thread reads the signals and responds at once.

A deadline (`within`) asks in the same way, as if it were SIGALRM.

On the command line (`keeping`), a signal that comes after the last check of a block counts for the next one. So does a
Ctrl-C whose KeyboardInterrupt got lost: Python ignores an exception in a callback of its garbage collector.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import Signals

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_END = 0  # no signal has this number


class Stopped(Exception):  # noqa: N818 (it is a request that was followed, not an error)
    """The run ended because it was asked to; its text is one sentence for the user."""

    def __init__(self, what: str, number: int, how_to_go_on: str) -> None:
        super().__init__(f"{what}; {how_to_go_on}")
        self.what, self.signal = what, number
        self.exit_code = 128 + number  # a shell's convention


class Stop:
    """What asked the run to stop."""

    def __init__(self) -> None:
        self._signal: Signals | None = None

    @property
    def by_user(self) -> Signals | None:
        """The signal, if it is no deadline."""
        return None if self._signal == TIME_IS_UP else self._signal

    @property
    def signal(self) -> Signals | None:
        """The signal that asked the run to stop, SIGALRM for a deadline; None as long as nothing did."""
        if self._signal is None and _deadlines and time.monotonic() >= min(_deadlines):
            self._signal = TIME_IS_UP
        return self._signal

    @signal.setter
    def signal(self, number: Signals) -> None:
        self._signal = number

    def check(self, what: str, how_to_go_on: str) -> None:
        """Raise `Stopped` if something asked to stop."""
        if (number := self.signal) is not None:
            raise Stopped(f"{what}: stopped by {number.name}", number, how_to_go_on)


TIME_IS_UP = signal.SIGALRM
_unheeded: list[Signals] | None = None  # signals that nobody has followed yet; None: they are not kept
_deadlines: list[float] = []  # moments of the monotonic clock


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ask what runs in the block to stop after so many seconds."""
    moment = time.monotonic() + seconds
    _deadlines.append(moment)
    try:
        yield
    finally:
        _deadlines.remove(moment)


@contextmanager
def keeping() -> Iterator[None]:
    """Keep signals that nobody follows for the next block that listens, in all of a command."""
    global _unheeded
    kept = _unheeded = []

    def interrupt(number: int, frame: object) -> None:
        kept.append(signal.SIGINT)
        signal.default_int_handler(number, frame)  # type: ignore[arg-type]

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        _unheeded = None
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def listening(say: Callable[[str], None], clean_up: Callable[[], object] = lambda: None) -> Iterator[Stop]:
    """Note signals while the block runs; `clean_up` is called before a sudden end, to restore the terminal."""
    stop = Stop()
    if _unheeded:
        stop.signal = _unheeded[0]
        _unheeded.clear()
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
    raised = True
    try:
        yield stop
        raised = False
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        os.write(writer, bytes([_END]))
        thread.join()
        os.close(reader)
        os.close(writer)
        if _unheeded is not None and stop.by_user and not raised:  # it came after the last check
            _unheeded.append(stop.by_user)


def _read(reader: int, stop: Stop, say: Callable[[str], None], clean_up: Callable[[], object]) -> None:
    while (number := os.read(reader, 1)[0]) != _END:
        if number not in SIGNALS:
            continue
        if stop.by_user is None:
            stop.signal = asked = signal.Signals(number)
            again = "; press Ctrl-C again to end at once" if number == signal.SIGINT else ""
            say(f"{asked.name}: stopping as soon as nothing gets lost{again}")
        elif number == signal.SIGINT:
            clean_up()
            print("\nmetapl: ended at once, without a checkpoint", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(128 + signal.SIGINT)
