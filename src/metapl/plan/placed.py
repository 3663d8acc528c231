"""Read a TPU's program before it is machine code.

When the compiler has given every buffer its place, it can write the program and the places to files. Machine code comes
after that, and for a large network it takes most of the time and many times the memory. All that `metapl plan` says is
in these files, but for the size of the machine code itself.
"""

import re
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

PROGRAM, BUFFERS, LAST = (
    f"*after_optimizations{rest}.txt" for rest in ("", "-buffer-assignment", "-memory-usage-report")
)
LOOK_EVERY_S = 1.0

# allocation 82: size 394240, preallocated-temp:     Colors are other memories than the main one.
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+), (.*):$", re.MULTILINE)
_KINDS = {"preallocated-temp": "temp", "parameter": "argument", "maybe-live-out": "output"}


class Placed(NamedTuple):
    """A program without machine code; it answers as JAX's compiled programs do."""

    text: str
    buffers: str

    def as_text(self) -> str:
        """The optimised program."""
        return self.text

    def memory_analysis(self) -> Any:
        """Bytes in the main memory, by kind; outputs that reuse the memory of arguments are not counted."""
        sizes = dict.fromkeys(_KINDS.values(), 0)
        for size, words in _ALLOCATION.findall(self.buffers):
            kind = next((kind for word, kind in _KINDS.items() if word in words), None)
            if kind and not words.startswith("color"):
                sizes[kind] += int(size)
        named = {f"{kind}_size_in_bytes": size for kind, size in sizes.items()}
        return SimpleNamespace(**named, alias_size_in_bytes=0, generated_code_size_in_bytes=0)


def compile_until_placed(lowered: Any) -> Placed:
    """Let the compiler work until all buffers are placed; it cannot be stopped, so the caller must end the process."""
    errors: list[Exception] = []

    def work(folder: str) -> None:
        try:
            lowered.compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_text": True})
        except Exception as error:  # the caller's thread raises it
            errors.append(error)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        worker = threading.Thread(target=work, args=(folder,), daemon=True)
        worker.start()
        sizes: list[int] = []
        while worker.is_alive():
            before, sizes = sizes, [path.stat().st_size for path in _files(folder)]
            if len(sizes) == len({PROGRAM, BUFFERS, LAST}) and sizes == before:  # nothing is written any more
                break
            time.sleep(LOOK_EVERY_S)
        if errors:
            raise errors[0]
        files = _files(folder)
        if len(files) < len({PROGRAM, BUFFERS, LAST}):
            raise RuntimeError("this compiler does not write its program to files; plan with machine code")
        return Placed(*(path.read_text("utf-8") for path in files[:2]))


def _files(folder: str) -> list[Path]:
    """The files that are there; small programs that XLA compiles on the way have files, too: the largest counts."""
    there = [
        sorted(Path(folder).glob(pattern), key=lambda path: path.stat().st_size) for pattern in (PROGRAM, BUFFERS, LAST)
    ]
    return [paths[-1] for paths in there if paths]
