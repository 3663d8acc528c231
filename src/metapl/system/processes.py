"""Several processes that do one run together: all compute; process 0, the leader, also decides, writes and prints.

The leader decides what depends on a clock, a file or a signal, and tells the others (`leader_decides`) through the
key-value store of jax.distributed. With one process, these functions do nothing.

If a process were lost, the others would wait for its numbers forever. So each process writes a heartbeat every second.
The leader notices missing heartbeats, and the others notice when their connection to the leader breaks. Whoever
notices says which process is lost, and ends. jax.distributed has its own watch, which ends processes without an
explanation: its timeout is longer, so that it acts only where ours fails.
"""

import itertools
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from metapl.schema import ConfigError
from metapl.system.disk import is_refusal, reason
from metapl.system.shortage import shortage
from metapl.system.signals import Stopped

T = TypeVar("T")

BEAT_S = 1.0  # between heartbeats
PATIENCE_S = 10.0  # a process without a heartbeat for so long is lost
LINGER_S = 3.0  # how long the leader stays after it has said who is lost, so that the others can read it
FOREVER_MS = 7 * 24 * 3600 * 1000  # another process may compile or write; a lost one ends the waiting
LOST = 75  # exit code: try again (`metapl resume`); EX_TEMPFAIL of sysexits.h

_turns = itertools.count()


def index() -> int:
    """The number of this process."""
    return int(_state().process_id) if _client() else 0


def count() -> int:
    """How many processes there are."""
    return int(_state().num_processes) if _client() else 1


def is_leader() -> bool:
    """Whether this is process 0, which writes files and prints."""
    return index() == 0


def leader_decides(decide: Callable[[], T]) -> T:
    """Return the leader's decision, in every process; all must call this, in the same order. It is sent as JSON."""
    client = _client()
    if client is None:
        return decide()
    turn = next(_turns)
    if not is_leader():
        return json.loads(client.blocking_key_value_get(f"metapl/leader_decides/{turn}", FOREVER_MS))
    value = decide()
    client.key_value_set(f"metapl/leader_decides/{turn}", json.dumps(value))
    if turn >= 1000:  # read by all: they have waited for each other since
        client.key_value_delete(f"metapl/leader_decides/{turn - 1000}")
    return value


def broadcast(value: T) -> T:
    """Return the leader's value, in every process."""
    return leader_decides(lambda: value)


def check_same_everywhere(given: Mapping[str, Any]) -> None:
    """Raise ConfigError if this process was given other settings than the leader."""
    mine = json.loads(json.dumps(given))
    first = broadcast(mine)
    if differing := sorted(name for name in {*mine, *first} if mine.get(name) != first.get(name)):
        raise ConfigError(
            f"process {index()} on {socket.gethostname()} was started with another {', '.join(differing)} than "
            "process 0: all processes need the same command, except for --process-id"
        )


def barrier(place: str) -> None:
    """Wait until every process has reached this place; each name may be used once."""
    if client := _client():
        client.wait_at_barrier(f"metapl/{place}", FOREVER_MS)


def request_stop(number: int) -> None:
    """Tell the leader about a signal that reached this process."""
    if client := _client():
        client.key_value_set("metapl/stop/signal", str(int(number)), allow_overwrite=True)


def requested_stop() -> int | None:
    """The signal that reached another process; None if none did."""
    signals = dict(client.key_value_dir_get("metapl/stop/")) if (client := _client()) else {}
    return int(next(iter(signals.values()))) if signals else None


def check_visible(folder: Path) -> None:
    """Raise ConfigError if this process does not see the leader's folder."""
    if count() > 1 and not folder.exists():
        raise ConfigError(
            f"process {index()} on {socket.gethostname()} does not see {folder}: a run of several processes needs a "
            "folder that all of them share"
        )


@contextmanager
def together() -> Iterator[None]:
    """Work with the other processes while the block runs; if one is lost, end within seconds and say which."""
    client = _client()
    if client is None:
        yield
        return
    watch = _Watch(client)
    try:
        yield
        barrier("end")
    except Stopped:  # in all processes
        barrier("stop")
        raise
    except ConfigError as error:
        watch.leave(str(error), 2)
    except Exception as error:
        if isinstance(error, OSError) and is_refusal(error):
            watch.leave(f"{error.filename or 'the disk'}: {reason(error)}", 2)
        if sentence := shortage(error):
            watch.leave(sentence, 2)
        # A lost process also breaks the others' computations: the watch finds out which it is, and ends this process.
        watch.wait_for_lost()
        traceback.print_exception(error)
        watch.leave(f"{type(error).__name__}: {error}", 1)
    finally:
        watch.close()


class _Watch:
    """Threads that send this process's heartbeat and watch the others."""

    def __init__(self, client: Any) -> None:
        self._client, self._over = client, threading.Event()
        self._patience_s = PATIENCE_S
        self._seen: dict[str, tuple[str, float]] = {}
        self._threads = [threading.Thread(target=self._beat, name="beat", daemon=True)]
        if not is_leader():
            self._threads.append(threading.Thread(target=self._hold_line, name="line", daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop watching: the other processes are done, too."""
        self._over.set()

    def wait_for_lost(self) -> None:
        """Wait until the watch has found out whether a process is lost: that may be why a computation failed.

        Only the leader notices that a third process is lost. If nothing failed in the leader, it needs its usual
        patience.
        """
        if is_leader():
            self._patience_s = 4 * BEAT_S
        time.sleep(self._patience_s + 2 * BEAT_S + LINGER_S)

    def leave(self, sentence: str, code: int) -> None:
        """Tell the others why, and end this process, even if its other threads are waiting."""
        self._tell(sentence, code)
        _say(sentence)
        if is_leader():
            time.sleep(LINGER_S)
        os._exit(code)

    def _beat(self) -> None:
        for number in itertools.count():
            try:
                self._client.key_value_set(f"metapl/here/{index()}", f"{number}", allow_overwrite=True)
                self._check_others()
            except Exception:
                self._lost(0)
            if self._over.wait(BEAT_S):
                return

    def _check_others(self) -> None:
        for key, ending in self._client.key_value_dir_get("metapl/gone/"):
            code, _, sentence = ending.partition(" ")
            if key.rsplit("/", 1)[1] != str(index()):
                _end(f"process {key.rsplit('/', 1)[1]} has ended: {sentence}", int(code))
        if not is_leader():
            return
        now, beats = time.monotonic(), dict(self._client.key_value_dir_get("metapl/here/"))
        for other in range(1, count()):
            beat = beats.get(f"metapl/here/{other}", "")
            if self._seen.get(str(other), ("?", now))[0] != beat:
                self._seen[str(other)] = (beat, now)
            elif now - self._seen[str(other)][1] > self._patience_s:
                self._lost(other)

    def _hold_line(self) -> None:
        """Wait until a silent connection to the leader breaks; if a new one fails, the leader is lost."""
        host, port = str(_state().coordinator_address).rsplit(":", 1)
        while not self._over.is_set():
            try:
                with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S) as line:
                    line.settimeout(None)
                    while line.recv(4096):
                        pass
            except OSError:
                self._lost(0)

    def _lost(self, other: int) -> None:
        if self._over.is_set():
            return
        sentence = (
            f"process {other} of {count()} is lost, and the others cannot continue without it; metapl resume continues "
            "from the last checkpoint, with any number of processes"
        )
        if is_leader():
            self._tell(sentence, LOST)
        _end(sentence, LOST)

    def _tell(self, sentence: str, code: int) -> None:
        """Tell the others why this process ends, and the exit code that they should use."""
        self._client.key_value_set(f"metapl/gone/{index()}", f"{code} {sentence}")


def _end(sentence: str, code: int) -> None:
    _say(sentence)
    if is_leader():
        time.sleep(LINGER_S)
    os._exit(code)


def _say(sentence: str) -> None:
    sys.stdout.flush()
    print(f"metapl: {sentence}", file=sys.stderr, flush=True)  # noqa: T201


def _state() -> Any:
    from jax._src import distributed  # the store has no public name; orbax imports it from here, too

    return distributed.global_state


def _client() -> Any:
    return _state().client if "jax" in sys.modules else None
