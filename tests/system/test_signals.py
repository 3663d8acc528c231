"""A run that is asked to stop answers at once, whatever it is doing."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from metapl.system.signals import Stop, Stopped, keeping, listening, within


def wait_for(condition, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_noted_and_answered(number):
    said, before = [], signal.getsignal(number)
    with listening(said.append) as stop:
        assert stop.signal is None
        os.kill(os.getpid(), number)
        wait_for(lambda: said)
        assert stop.signal == number
        os.kill(os.getpid(), signal.SIGTERM)  # again: it is being done
    assert len(said) == 1
    assert said[0].startswith(f"{number.name}: stopping as soon as")
    assert ("again to end at once" in said[0]) == (number == signal.SIGINT)
    assert signal.getsignal(number) == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening(lambda _: None) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.05)
            assert stop.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_of_the_main_thread_nothing_is_listened_to():
    seen = []

    def other() -> None:
        with listening(lambda _: None) as stop:
            seen.append(stop.signal)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [None]


BUSY = """
import hashlib
import sys
sys.path.insert(0, sys.argv[1])
from metapl.system.signals import listening
with listening(lambda said: print(said, flush=True), lambda: print("tidied up", flush=True)):
    print("ready", flush=True)
    # As a compilation is: one instruction to Python, without its lock; no handler is called before it ends in a minute.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)
"""


def test_the_second_sigint_leaves_at_once_even_in_the_middle_of_a_compilation():
    import metapl

    source = os.path.dirname(os.path.dirname(metapl.__file__))
    command = [sys.executable, "-c", BUSY, source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGINT)
            assert "press Ctrl-C again" in child.stdout.readline()
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
        finally:
            child.kill()
        assert child.returncode == 130
        assert out == "tidied up\n"
        assert "ended at once" in err


def test_a_deadline_asks_to_stop_as_a_signal_does_and_ends_with_its_block():
    stop = Stop()
    with within(0.0), within(60.0):
        with pytest.raises(Stopped, match="some work: stopped by SIGALRM; go on") as stopped:
            stop.check("some work", "go on")
        assert stopped.value.signal == signal.SIGALRM
    Stop().check("other work", "go on")
    with within(60.0):
        Stop().check("other work", "go on")


def asking_to_stop(number: signal.Signals) -> None:
    """A block that a signal reaches after its last check."""
    said = []
    with listening(said.append):
        os.kill(os.getpid(), number)
        wait_for(lambda: said)


def test_a_signal_after_the_last_check_counts_for_the_next_block():
    with keeping():
        asking_to_stop(signal.SIGTERM)
        with pytest.raises(Stopped, match="stopped by SIGTERM"), listening(lambda _: None) as stop:
            stop.check("next", "the same command continues")
        with listening(lambda _: None) as stop:  # to write the verdict
            assert stop.signal is None
    with listening(lambda _: None) as stop:  # another command
        assert stop.signal is None


def checking_when_asked(number: signal.Signals) -> None:
    with listening(lambda _: None) as stop:
        os.kill(os.getpid(), number)
        wait_for(lambda: stop.signal)
        stop.check("work", "the same command continues")


def test_a_signal_that_was_followed_counts_once():
    with keeping():
        with pytest.raises(Stopped):
            checking_when_asked(signal.SIGTERM)
        with listening(lambda _: None) as stop:  # to write the verdict
            assert stop.signal is None


def test_without_a_command_signals_are_not_kept():
    asking_to_stop(signal.SIGTERM)
    with listening(lambda _: None) as stop:
        assert stop.signal is None


def test_an_interrupt_that_python_ignores_counts_all_the_same():
    before = signal.getsignal(signal.SIGINT)
    with keeping():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with listening(lambda _: None) as stop:
            assert stop.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) == before


def test_ctrl_c_after_a_deadline_asks_once_and_does_not_end_at_once():
    said = []
    with within(-1.0), listening(said.append) as stop:
        assert stop.signal == signal.SIGALRM
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(lambda: said)
        assert stop.signal == signal.SIGINT


def test_exit_codes_are_those_of_a_shell():
    assert Stopped("", signal.SIGINT, "").exit_code == 130
    assert Stopped("", signal.SIGTERM, "").exit_code == 143
