"""Bytes that a compiled program sends, reads and writes, from its text; the body of a loop counts as often as it runs.

All bytes are those of one device. What it sends in a collective among n devices, with the usual ring algorithms:

| collective         | bytes sent, of an operand of b bytes |
|--------------------|--------------------------------------|
| all-reduce         | 2 b (n − 1) / n                      |
| reduce-scatter     | b (n − 1) / n                        |
| all-to-all         | b (n − 1) / n                        |
| all-gather         | b (n − 1)                            |
| collective-permute | b                                    |
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from metapl.plan.hlo import Instruction, Program, estimated_cycles, executions, group, inside, parse, size, stored_size
from metapl.plan.memory_traffic import kind_of, touched

SENT = {
    "all-reduce": lambda b, n: 2 * b * (n - 1) / n,
    "reduce-scatter": lambda b, n: b * (n - 1) / n,
    "all-to-all": lambda b, n: b * (n - 1) / n,
    "ragged-all-to-all": lambda b, n: b * (n - 1) / n,
    "all-gather": lambda b, n: b * (n - 1),
    "collective-permute": lambda b, n: b,
    "collective-broadcast": lambda b, n: b,
}


class Traffic(NamedTuple):
    """What one device sends and reads when the program runs once."""

    counts: dict[str, int]  # how often, for each kind of collective
    sent: dict[str, float]  # bytes, for each kind of collective
    memory: dict[str, float]  # bytes read and written, for each kind of instruction (memory_traffic.py)
    stored: float = 0.0  # bytes read and written, with the padding of tiles
    cycles: int = 0  # that the compiler expects its instructions to take; 0: it says nothing

    @property
    def sent_in_all(self) -> float:
        """Bytes sent in all collectives."""
        return sum(self.sent.values())

    @property
    def memory_in_all(self) -> float:
        """Bytes read and written."""
        return sum(self.memory.values())


def of(text: str, devices: int) -> Traffic:
    """Add up the traffic of a compiled program, given as text, for so many devices."""
    computations, entry = parse(text)
    counts: dict[str, int] = {}
    sent: dict[str, float] = {}
    memory: dict[str, float] = {}
    stored, cycles = 0.0, 0
    for name, times in executions(computations, entry).items():
        body = computations[name]
        types = {instruction.name: instruction.type for instruction in body}
        for instruction in body:
            for kind, operands, taking_part in _collectives(instruction, types, computations, devices):
                counts[kind] = counts.get(kind, 0) + times
                sent[kind] = sent.get(kind, 0.0) + times * SENT[kind](operands, taking_part)
            if moved := times * touched(instruction, types, computations):
                kind = kind_of(instruction, computations)
                memory[kind] = memory.get(kind, 0.0) + moved
                stored += times * touched(instruction, types, computations, stored_size)
            cycles += times * estimated_cycles(instruction)
    return Traffic(
        dict(sorted(counts.items())), dict(sorted(sent.items())), dict(sorted(memory.items())), stored, cycles
    )


def _collectives(
    instruction: Instruction, types: Mapping[str, str], computations: Program, devices: int
) -> Iterator[tuple[str, int, int]]:
    """For each collective of an instruction (itself, or fused into it): its kind, the operands' bytes, the devices.

    The TPU's compiler fuses an all-reduce with the slice that a device needs; then only the slice is sent.
    """
    kind = instruction.opcode.removesuffix("-start")
    if kind in SENT:
        operands = sum(size(types.get(operand, "")) for operand in instruction.operands)
        yield kind, operands, group(instruction.rest, devices)
    elif kind == "fusion":
        fused_into_it = inside(instruction, computations)
        inner_types = {inner.name: inner.type for inner in fused_into_it}
        for inner in fused_into_it:
            for fused, operands, taking_part in _collectives(inner, inner_types, computations, devices):
                scatters = fused == "all-reduce" and size(instruction.type) < size(inner.type)
                yield "reduce-scatter" if scatters else fused, operands, taking_part
