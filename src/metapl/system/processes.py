"""Several processes that do one run together: all compute, process 0 decides, writes and speaks.

Process 0 decides what depends on a clock, a file or a signal, and tells the others (`leader_decides`), through the
store that jax.distributed keeps in process 0. With one process all of it is nothing.

A process that is lost would leave the others waiting for its numbers for ever. So each says every second that it is
there; process 0 misses one that does not, the others hold a line to process 0 that breaks with it, and whoever finds
out says who is gone and ends its process. jax.distributed has a watch of its own, which ends processes without our
words: it is set to come later, for what ours does not see.
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
from metapl.system.signals import Stopped

T = TypeVar("T")

BEAT_S = 1.0
PATIENCE_S = 10.0  # without a beat, a process is lost
LINGER_S = 3.0  # process 0 stays for so long when it has said who is lost: the others read it there
FOREVER_MS = 7 * 24 * 3600 * 1000  # someone else compiles, or writes; who is lost ends the waiting
LOST = 75  # exit code: try again (`metapl resume`), as sysexits.h has it

_turns = itertools.count()


def index() -> int:
    """Which process this is."""
    return int(_state().process_id) if _client() else 0


def count() -> int:
    """How many there are."""
    return int(_state().num_processes) if _client() else 1


def is_leader() -> bool:
    """Is it process 0, which writes files and speaks?"""
    return index() == 0


def leader_decides(decide: Callable[[], T]) -> T:
    """What process 0 decides, in every process; all have to ask, in the same order. It goes through JSON."""
    client = _client()
    if client is None:
        return decide()
    turn = next(_turns)
    if not is_leader():
        return json.loads(client.blocking_key_value_get(f"metapl/leader_decides/{turn}", FOREVER_MS))
    value = decide()
    client.key_value_set(f"metapl/leader_decides/{turn}", json.dumps(value))
    if turn >= 1000:  # long since read: between two that are so far apart, all have waited for each other
        client.key_value_delete(f"metapl/leader_decides/{turn - 1000}")
    return value


def broadcast(value: T) -> T:
    """Process 0's value, in every process."""
    return leader_decides(lambda: value)


def check_same_everywhere(given: Mapping[str, Any]) -> None:
    """Refuse to go on where this process was given something else than process 0: no number would be right."""
    mine = json.loads(json.dumps(given))
    first = broadcast(mine)
    if other := sorted(name for name in {*mine, *first} if mine.get(name) != first.get(name)):
        raise ConfigError(
            f"process {index()} on {socket.gethostname()} was started with another {', '.join(other)} than process 0: "
            "all processes need the same command, but for --process-id"
        )


def barrier(place: str) -> None:
    """Wait until every process has come to a place, whose name is used once."""
    if client := _client():
        client.wait_at_barrier(f"metapl/{place}", FOREVER_MS)


def request_stop(number: int) -> None:
    """Tell process 0 of a signal that reached this one alone."""
    if client := _client():
        client.key_value_set("metapl/stop/signal", str(int(number)), allow_overwrite=True)


def requested_stop() -> int | None:
    """The signal that reached another process, if one did."""
    found = dict(client.key_value_dir_get("metapl/stop/")) if (client := _client()) else {}
    return int(next(iter(found.values()))) if found else None


def check_visible(folder: Path) -> None:
    """Refuse to go on where this process does not see the files that process 0 has written."""
    if count() > 1 and not folder.exists():
        raise ConfigError(
            f"process {index()} on {socket.gethostname()} does not see {folder}: a run of several processes needs a "
            "folder that all of them share"
        )


@contextmanager
def together() -> Iterator[None]:
    """Work with the others while the block lasts; when one of them is lost, end with a sentence, within seconds."""
    client = _client()
    if client is None:
        yield
        return
    watch = _Watch(client)
    try:
        yield
        barrier("end")
    except Stopped:  # all of them are
        barrier("stop")
        raise
    except ConfigError as error:
        watch.leave(str(error), 2)
    except Exception as error:
        if isinstance(error, OSError) and is_refusal(error):
            watch.leave(f"{error.filename or 'the disk'}: {reason(error)}", 2)
        # Where a process is lost, what the others compute breaks, too: the watch knows who it was, and ends this one.
        watch.suspect()
        traceback.print_exception(error)
        watch.leave(f"{type(error).__name__}: {error}", 1)
    finally:
        watch.close()


class _Watch:
    """Threads that say that this process is there, and look after the others."""

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
        """No more watching: the others are done, too."""
        self._over.set()

    def suspect(self) -> None:
        """Something broke that breaks when a process is lost: give the watch the time to find out.

        Only process 0 misses a third one, and where nothing broke there, not before its usual patience is over.
        """
        if is_leader():
            self._patience_s = 4 * BEAT_S
        time.sleep(self._patience_s + 2 * BEAT_S + LINGER_S)

    def leave(self, sentence: str, code: int) -> None:
        """End this process, whatever its other threads wait for, and let the others know why."""
        self._tell(sentence, 1)
        _say(sentence)
        if is_leader():
            time.sleep(LINGER_S)
        os._exit(code)

    def _beat(self) -> None:
        for number in itertools.count():
            try:
                self._client.key_value_set(f"metapl/here/{index()}", f"{number}", allow_overwrite=True)
                self._look()
            except Exception:
                self._lost(0)
            if self._over.wait(BEAT_S):
                return

    def _look(self) -> None:
        for key, told in self._client.key_value_dir_get("metapl/gone/"):
            code, _, sentence = told.partition(" ")
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
        """Wait for the end of a connection to process 0, which says nothing; a new one tells whether it is there."""
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
            f"process {other} of {count()} is lost, and nothing can be computed without it; metapl resume goes on from "
            "the last checkpoint, with any number of processes"
        )
        if is_leader():
            self._tell(sentence, LOST)
        _end(sentence, LOST)

    def _tell(self, sentence: str, code: int) -> None:
        """Let the others know why this process ends, and with which exit code they do."""
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
    from jax._src import distributed  # the store has no public name; orbax takes it from here, too

    return distributed.global_state


def _client() -> Any:
    return _state().client if "jax" in sys.modules else None
