"""Disks that are full or read-only, clocks that are set, two writers, damaged files: equal bits, or one sentence.

A full and a read-only disk are a small tmpfs, which takes root; without root these two are named as not tried.
"""

import dataclasses
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults import kills
from faults.kills import Peaceful, ending, finish, in_peace
from faults.report import finding, summary
from faults.scenes import SCENES, Scene, digests, lay_out, start

SIZES_KB = (8, 64, 512)  # of disks that are too small
ENOUGH = "400m"
DAMAGED = 6  # files
IMPORTS_S = 20.0  # that a command may need more if it is not started by fork, on a busy machine
Fault = Callable[[Scene, Path, Peaceful], str | None]  # what is wrong afterwards, or None


class NotTriedError(Exception):
    """The fault cannot be made on this machine."""


def campaign(name: str) -> dict[str, Any]:
    """Try every fault on one scene; return what happened."""
    scene, failures, not_tried = SCENES[name], list[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="metapl-faults-") as folder:
        peaceful = in_peace(scene, Path(folder) / "peace")
        for fault, make in FAULTS.items():
            try:
                problem = make(scene, Path(folder) / fault, peaceful)
            except NotTriedError as reason:
                not_tried.append(f"{fault}: {reason}")
                continue
            if problem:
                failures.append(finding(name, fault, problem))
    return summary("disks", name, len(FAULTS) - len(not_tried), failures, not_tried=not_tried)


@contextmanager
def _disk(place: Path, size: str) -> Iterator[None]:
    """A tmpfs of this size at `place`."""
    place.mkdir(exist_ok=True)
    if os.geteuid() or _call("mount", "-t", "tmpfs", "-o", f"size={size}", "metapl-faults", str(place)):
        raise NotTriedError("mounting a tmpfs takes root")
    try:
        yield
    finally:
        _call("umount", "-l", str(place))


def _call(*words: str) -> int:
    return subprocess.run(words, check=False, capture_output=True).returncode


def full_disk(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """The disk is full early, later, and late; then there is room again."""
    with _disk(place, ENOUGH):
        lay_out(scene, place)
        for kilobytes in SIZES_KB:
            filler = place / "filler"
            filler.unlink(missing_ok=True)
            free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
            filler.write_bytes(bytes(max(0, free - 1024 * kilobytes)))
            words = scene.continued if (place / scene.out).exists() else scene.command
            code, text = finish(start(place, words, scene.program))
            if "Traceback" in text:
                return f"{kilobytes} kB: {text[-600:]}"
            if code == 0:
                break
        filler.unlink(missing_ok=True)
        return ending(scene, place, peaceful)


def read_only(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """Nothing can be written."""
    with _disk(place, ENOUGH):
        lay_out(scene, place)
        _call("mount", "-o", "remount,ro", str(place))
        code, text = finish(start(place, scene.command, scene.program))
        _call("mount", "-o", "remount,rw", str(place))
        if code == 0 or "Traceback" in text:
            return f"exit code {code}: {text[-600:]}"
        return ending(scene, place, peaceful)


def files_of_another_time(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """All files seem to be of 1990, then of 2037, when the command is continued."""
    _stopped_halfway(scene, place, peaceful.seconds)
    for seconds in (20 * 365 * 86400, 67 * 365 * 86400):
        for path in place.rglob("*"):
            if path.is_file():
                os.utime(path, (seconds, seconds))
        if problem := ending(scene, place, peaceful):
            return problem
    return None


def jumping_clock(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """The clock jumps while the command works, is killed, and works again."""
    if scene.program != "metapl":
        raise NotTriedError(f"the command is one of {scene.program}, which has its own clock")
    jumping = dataclasses.replace(scene, program="faults.jumping_clock")
    _stopped_halfway(jumping, place, peaceful.seconds + IMPORTS_S)
    return ending(jumping, place, peaceful)


def two_writers(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """The same command twice at the same time: one does the work, and the other says so or waits."""
    lay_out(scene, place)
    both = [start(place, scene.command, scene.program) for _ in range(2)]
    ends = [finish(process) for process in both]
    for code, text in ends:
        if "Traceback" in text:
            return f"exit code {code}: {text[-600:]}"
    return ending(scene, place, peaceful)


def damage(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """Bytes of some files that the command has written are flipped, or files are cut, after it was killed."""
    _stopped_halfway(scene, place, peaceful.seconds)
    draw = random.Random(f"{scene.command}")
    written = [path for root in (scene.out, "cache") for path in sorted((place / root).rglob("*")) if path.is_file()]
    for path in draw.sample(written, min(DAMAGED, len(written))):
        data = bytearray(path.read_bytes())
        if data and draw.random() < 0.7:
            data[draw.randrange(len(data))] ^= 255
        path.write_bytes(data if data and draw.random() < 0.7 else data[: len(data) // 2])
    code, text = finish(start(place, scene.continued, scene.program))
    if "Traceback" in text:
        return f"exit code {code}: {text[-600:]}"
    results = digests(scene, place)
    if code == 0 and results != peaceful.results and _says_nothing(text):
        return "other bits, without a word"
    return None


def _says_nothing(text: str) -> bool:
    return not any(word in text for word in ("damaged", "changed", "cannot", "differ", "set aside", "again"))


def _stopped_halfway(scene: Scene, place: Path, seconds: float) -> None:
    """Kill the command after 25 writes, or after so many seconds."""
    lay_out(scene, place)
    process = start(place, scene.command, scene.program)
    kills.wait_for_writes(process, place, 25, time.monotonic() + seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # the group that `start` has made for it
    process.communicate(timeout=kills.LONGEST_S)


FAULTS: Mapping[str, Fault] = {
    "full disk": full_disk,
    "read-only disk": read_only,
    "files of another time": files_of_another_time,
    "jumping clock": jumping_clock,
    "two writers": two_writers,
    "damage": damage,
}
