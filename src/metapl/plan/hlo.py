"""Read a compiled program's text: its instructions, how often each computation runs, and the sizes of arrays.

XLA's own cost analysis counts the body of a loop once. Here it counts times its trip count. The CPU's compiler writes
the trip count next to the loop. The TPU's compiler does not; there it is the number that the loop's condition compares
with, because jax's loops count from 0 in steps of 1. A loop whose condition has no such number (the loop over a run's
steps) counts once.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

BYTES = {"pred": 1, "token": 0, "opaque": 0}  # other types have their bits in their name: f32, bf16, s8, f8e4m3fn, c64
# Instructions that move no bytes: they name existing values, or only call others.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "partition-id", "replica-id", "opt-barrier", "async-start", "async-update", "async-done", "iota",
}  # fmt: skip

_HEADER = re.compile(r"^(ENTRY )?%?(?P<name>[\w.-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<type>.+?) (?P<opcode>[a-z][a-z0-9-]*)\((?P<rest>.*)$"
)
_SHAPE = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,<=]*)\](?:\{([^}]*)\})?")
_TILE = re.compile(r"T\(([\d,]+)\)")
_OTHER_MEMORY = re.compile(r"S\([1-9]")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"(body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'known_trip_count"?:\s*\{"?n"?:"?(\d+)"?\}')
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[(\d+),(\d+)\]")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}")
_MESH_AXIS = re.compile(r"'([^']+)'=(\d+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_WHOLE_NUMBER = re.compile(r"[su]\d+\[\]")


class Instruction(NamedTuple):
    """One line of the program."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str  # everything after the opcode's parenthesis


Program = Mapping[str, list[Instruction]]  # the instructions of each computation


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of each computation, and the name of the program's entry."""
    computations: dict[str, list[Instruction]] = {}
    entry = name = ""
    for line in text.splitlines():
        if header := _HEADER.match(line):
            name = header["name"]
            computations[name] = []
            entry = name if header[1] else entry
        elif name and (match := _INSTRUCTION.match(line)):
            operands = tuple(_OPERAND.findall(_arguments(match["rest"])))
            computations[name].append(
                Instruction(match["name"], match["type"], match["opcode"], operands, match["rest"])
            )
    return computations, entry


def executions(computations: Program, entry: str) -> dict[str, int]:
    """How often each computation outside of fusions runs; every branch of a condition counts."""
    times: dict[str, int] = {}

    def visit(name: str, factor: int) -> None:
        times[name] = times.get(name, 0) + factor
        for instruction in computations[name]:
            trips = _trips(instruction, computations) if instruction.opcode == "while" else 1
            for called in _called(instruction):
                if called in computations:
                    visit(called, factor * trips)

    if entry:
        visit(entry, 1)
    return times


def _trips(loop: Instruction, computations: Program) -> int:
    """How often a loop's body runs; 1 if the text does not say."""
    if known := _TRIPS.search(loop.rest):
        return int(known[1])
    condition = computations.get(dict(_CALLED.findall(loop.rest)).get("condition", ""), [])
    limits = {
        int(_arguments(each.rest))
        for each in condition
        if each.opcode == "constant" and _WHOLE_NUMBER.match(each.type) and _arguments(each.rest).isdigit()
    }
    return limits.pop() if len(limits) == 1 else 1


def _called(instruction: Instruction) -> Iterator[str]:
    """Computations that an instruction runs; those of fusions and reductions do not count as instructions."""
    if instruction.opcode not in {"while", "conditional", "call", "async-start"}:
        return
    for key, name in _CALLED.findall(instruction.rest):
        if key != "condition":
            yield name
    if branches := _BRANCHES.search(instruction.rest):
        yield from _OPERAND.findall(branches[1]) or branches[1].replace(" ", "").split(",")


def estimated_cycles(instruction: Instruction) -> int:
    """Cycles that the TPU's compiler expects an instruction to take, where it writes them; 0: it does not."""
    found = _CYCLES.search(instruction.rest)
    return int(found[1]) if found else 0


def inside(fusion: Instruction, computations: Program) -> list[Instruction]:
    """The instructions inside a fusion."""
    return computations.get(next((name for _, name in _CALLED.findall(fusion.rest)), ""), [])


def size(kind: str) -> int:
    """Bytes of a type such as f32[8,128]{1,0}, or of a tuple of types."""
    return sum(_size(name, dims) for name, dims, _ in _SHAPE.findall(kind))


def stored_size(kind: str) -> int:
    """As `size`, with the padding of tiles: bf16[17,72]{1,0:T(8,128)(2,1)} is stored as [24,128]."""
    return sum(_size(name, dims, layout) for name, dims, layout in _SHAPE.findall(kind))


def without_fast_memory(kind: str) -> str:
    """Leave out arrays in a chip's own fast memory, or on the host."""
    return _SHAPE.sub(lambda array: "" if _OTHER_MEMORY.search(array[3] or "") else array[0], kind)


def _size(name: str, dims: str, layout: str = "") -> int:
    sides = [int(side) for side in dims.replace("<=", "").split(",") if side]
    order, _, tiles = layout.partition(":")
    if tile := _TILE.match(tiles):
        for axis, length in zip(
            map(int, filter(None, order.split(","))), map(int, tile[1].split(",")[::-1]), strict=False
        ):
            sides[axis] = -(-sides[axis] // length) * length
    return int(_bytes(name) * math.prod(sides))


def _bytes(name: str) -> float:
    if name in BYTES:
        return BYTES[name]
    bits = re.match(r"[a-z]+(\d+)", name)
    return int(bits[1]) / 8 if bits else 0


def group(rest: str, devices: int) -> int:
    """How many devices take part in a collective; without a list, all.

    A list that cannot be read is an error: if all devices counted, the bytes sent would be many times too large.
    """
    if listed := _LISTED_GROUPS.search(rest):
        return max(1, len(listed[1].split(",")))
    if iota := _IOTA_GROUPS.search(rest):
        return int(iota[2])
    if mesh := _MESH_GROUPS.search(rest):
        sizes = {axis: int(size) for axis, size in _MESH_AXIS.findall(mesh[1])}
        return math.prod(sizes[axis.strip(" '")] for axis in mesh[2].split(","))
    if "replica_groups=" in rest and "replica_groups={}" not in rest:
        raise ValueError(f"cannot read the replica groups: {rest[rest.index('replica_groups=') :][:200]}")
    return devices


def _arguments(rest: str) -> str:
    """The text between an opcode's parentheses."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return rest[:place]
    return rest
