"""A program that is read before it is machine code."""

import threading
from pathlib import Path

import pytest

from metapl.plan import placed

BUFFERS = """BufferAssignment:
allocation 0: size 4096, parameter 3, shape |f32[1,8,8]| at ShapeIndex {}, maybe-live-out:
 value: <396 multiply_reduce_fusion.15{1} @0> (size=4096,offset=0): f32[8,8]{1,0:T(8,128)}
allocation 1: size 1024, parameter 0, shape |f32[1,8]| at ShapeIndex {}:
allocation 7: size 512, output shape is |(f32[1,128], f32[1,64,128])|, maybe-live-out:
allocation 8: size 77, constant:
allocation 9: size 99, thread-local:
allocation 81: size 1024, color 6, preallocated-temp:
allocation 82: size 394240, preallocated-temp:
"""


class Lowered:
    """Compiles as a TPU's compiler does: files first, and then machine code for a long time."""

    def __init__(self, names: tuple[str, ...], refusal: str = "") -> None:
        self.names, self.refusal, self.stopped = names, refusal, threading.Event()

    def compile(self, compiler_options):
        folder = Path(compiler_options["xla_dump_to"])
        for name in self.names:
            (folder / f"module_0000.jit_advance{name}").write_text(BUFFERS if "buffer" in name else "HloModule x")
        (folder / "module_0001.small.after_optimizations.txt").write_text("small")
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.stopped.wait(60)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(placed, "LOOK_EVERY_S", 0.02)


FILES = tuple(f".after_optimizations{rest}.txt" for rest in ("", "-buffer-assignment", "-memory-usage-report"))


def test_it_does_not_wait_for_machine_code():
    lowered = Lowered(FILES)
    program = placed.compile_until_placed(lowered)
    lowered.stopped.set()
    assert program.as_text() == "HloModule x"
    assert program.buffers == BUFFERS


def test_buffers_of_the_main_memory_count_by_kind():
    memory = placed.Placed("", BUFFERS).memory_analysis()
    assert memory.argument_size_in_bytes == 4096 + 1024
    assert memory.output_size_in_bytes == 512
    assert memory.temp_size_in_bytes == 394240


def test_a_refusal_is_raised_and_missing_files_are_said():
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        placed.compile_until_placed(Lowered(FILES[:1], "RESOURCE_EXHAUSTED: too large"))
    lowered = Lowered(FILES[:1])
    lowered.stopped.set()
    with pytest.raises(RuntimeError, match="does not write its program"):
        placed.compile_until_placed(lowered)
