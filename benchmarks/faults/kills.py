"""SIGKILL at random moments: the files that count end with the bits of a run that nobody disturbed.

Half of the kills come at a random time of the whole command. The others come within a few milliseconds after something
has changed in the command's folder: most damage is done in the middle of a write.
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from faults.report import finding, summary
from faults.scenes import SCENES, Process, Scene, digests, lay_out, start

IN_A_ROW = 3  # kills of one attempt before it is left in peace
LONGEST_S = 300.0  # of one command, also on a busy machine; longer is a failure
SOON_S = 0.03  # after a write
LOOK_S = 0.004  # between two looks at the folder: on one core, looking slows the command down


class Peaceful(NamedTuple):
    """What the command leaves if nobody disturbs it."""

    results: dict[str, str]
    seconds: float


def campaign(name: str, number: int, seed: int, keep: Path | None = None) -> dict[str, Any]:
    """Kill one scene so many times; return what happened. What failed is copied to the folder `keep`."""
    scene, draw, failures, killed, attempt = SCENES[name], random.Random(f"{name} {seed}"), list[str](), 0, 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="metapl-faults-") as folder:
        peaceful = in_peace(scene, Path(folder) / "peace")
        while killed < number and attempt < 3 * number:  # some attempts end before their first kill
            place = Path(folder) / f"attempt{attempt}"
            problem, times = disturbed(scene, place, peaceful, draw, min(IN_A_ROW, number - killed))
            attempt, killed = attempt + 1, killed + times
            if problem:
                failures.append(finding(name, f"attempt {attempt}, seed {seed}", problem))
                if keep:
                    shutil.copytree(place, keep / f"{name}-{seed}-{attempt}", symlinks=True)
            shutil.rmtree(place)
    seconds = round(time.monotonic() - began)
    return summary("kills", name, killed, failures, continued=attempt, seconds=seconds)


def in_peace(scene: Scene, place: Path) -> Peaceful:
    """Run the scene from its beginning to its end; twice, so that the time is that of compiled programs."""
    for folder in (place, place.with_name("peace again")):
        lay_out(scene, folder)
        began = time.monotonic()
        ended = finish(start(folder, scene.command, scene.program))
        if ended[0]:
            raise RuntimeError(f"metapl {' '.join(scene.command)} fails by itself: {ended[1]}")
        seconds = time.monotonic() - began
    results = digests(scene, place)
    if not results or results != digests(scene, folder):
        raise RuntimeError(f"metapl {' '.join(scene.command)} gives {len(results)} files, and not the same ones twice")
    return Peaceful(results, seconds)


def disturbed(
    scene: Scene, place: Path, peaceful: Peaceful, draw: random.Random, attempts: int
) -> tuple[str | None, int]:
    """Kill the command some times, then let it end; return what went wrong, and how often it was killed."""
    lay_out(scene, place)
    killed = 0
    for _ in range(attempts):
        words = scene.continued if killed and (place / scene.out).exists() else scene.command
        process = start(place, words, scene.program)
        if not kill(process, place, peaceful.seconds, draw):
            break
        killed += 1
    return ending(scene, place, peaceful), killed


def kill(process: Process, place: Path, seconds: float, draw: random.Random) -> bool:
    """Kill the process and its children at a random moment; False if it ended before."""
    began = time.monotonic()
    if draw.random() < 0.5:
        moment = began + draw.uniform(0, seconds)
        while time.monotonic() < moment and process.poll() is None:
            time.sleep(0.002)
    else:
        wait_for_writes(process, place, draw.randint(1, 40), began + seconds)
        time.sleep(draw.uniform(0, SOON_S))
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)  # the group that `start` has made for it
    process.communicate(timeout=LONGEST_S)
    return alive


def wait_for_writes(process: Process, place: Path, changes: int, until: float) -> None:
    """Wait until the folder has changed so many times."""
    before = _shape(place)
    while changes and time.monotonic() < until and process.poll() is None:
        now = _shape(place)
        changes, before = changes - (now != before), now
        time.sleep(LOOK_S)


def _shape(place: Path) -> list[tuple[str, int]]:
    """Names and sizes of all files; one that vanishes meanwhile is left out."""
    found = []
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            try:
                found.append((path, os.stat(path).st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


def ending(scene: Scene, place: Path, peaceful: Peaceful) -> str | None:
    """Let the user's next command end in peace; return what is wrong then, or None."""
    code, text = finish(start(place, scene.continued, scene.program))
    if code == 2 and scene.again:  # it was killed before there was anything to continue
        code, text = finish(start(place, scene.command, scene.program))
    results = digests(scene, place)
    if results == peaceful.results and (code == 0 or "Traceback" not in text):
        return None  # a command that refuses to do finished work again is fine
    if code:
        return f"exit code {code}: {text[-600:]}"
    wrong = [name for name in sorted(peaceful.results.keys() | results.keys())
             if results.get(name) != peaceful.results.get(name)]  # fmt: skip
    return f"differ: {', '.join(wrong)}"


def finish(process: Process) -> tuple[int, str]:
    """Wait for a process; return its exit code and what it printed."""
    try:
        text, _ = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 124, f"not done after {LONGEST_S:.0f} s"
    return process.returncode, text
