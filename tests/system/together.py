"""Several processes of `metapl` on this machine, for tests."""

import json
import os
import socket
from pathlib import Path

from tests.forked import Command


class Place:
    """A folder, and processes that are started in it."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder = folder
        (folder / "my.toml").write_text(settings)
        self.environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "NPROC": "2",  # XLA's threads, by which it splits work: equal bits need as many in one process as in two
        }

    def start(self, *words: str, devices: int = 1) -> Command:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
        return Command(self.folder, words, self.environment | {"XLA_FLAGS": flags})

    def start_many(self, count: int, *words: str) -> list[Command]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            there = f"127.0.0.1:{free.getsockname()[1]}"
        all_of_them = ("--processes", str(count), "--coordinator", there)
        return [self.start(*words, *all_of_them, "--process-id", str(number)) for number in range(count)]

    def start_two(self, *words: str) -> list[Command]:
        return self.start_many(2, *words)

    def lines(self, run: str) -> list[dict]:
        return [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]


def ended(children: list[Command]) -> list[str]:
    """What each of them has printed; all must have ended well."""
    said = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children), said
    return said
