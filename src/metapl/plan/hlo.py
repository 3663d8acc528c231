"""Bytes that a compiled program sends and reads, from its text; the body of a loop counts as often as it runs.

XLA's own cost analysis counts the body of a loop once. Here it counts times its trip count. The CPU's compiler writes
the trip count next to the loop. The TPU's compiler does not; there it is the number that the loop's condition compares
with, because jax's loops count from 0 in steps of 1. A loop whose condition has no such number (the loop over a run's
steps) counts once.

All bytes are those of one device. What it sends in a collective among n devices, with the usual ring algorithms:

| collective         | bytes sent, of an operand of b bytes |
|--------------------|--------------------------------------|
| all-reduce         | 2 b (n − 1) / n                      |
| reduce-scatter     | b (n − 1) / n                        |
| all-to-all         | b (n − 1) / n                        |
| all-gather         | b (n − 1)                            |
| collective-permute | b                                    |

Memory traffic is the operands and results of every instruction outside of fusions. If a fusion takes only a slice of an
operand, the slice counts.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

BYTES = {"pred": 1, "token": 0, "opaque": 0}  # other types have their bits in their name: f32, bf16, s8, f8e4m3fn, c64
SENT = {
    "all-reduce": lambda b, n: 2 * b * (n - 1) / n,
    "reduce-scatter": lambda b, n: b * (n - 1) / n,
    "all-to-all": lambda b, n: b * (n - 1) / n,
    "ragged-all-to-all": lambda b, n: b * (n - 1) / n,
    "all-gather": lambda b, n: b * (n - 1),
    "collective-permute": lambda b, n: b,
    "collective-broadcast": lambda b, n: b,
}
# Instructions that move no bytes: they name existing values, or only call others.
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "partition-id", "replica-id", "opt-barrier", "async-start", "async-update", "async-done", "iota",
}  # fmt: skip

_HEADER = re.compile(r"^(ENTRY )?%?(?P<name>[\w.-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<type>.+?) (?P<opcode>[a-z][a-z0-9-]*)\((?P<rest>.*)$"
)
_SHAPE = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,<=]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"(body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'known_trip_count"?:\s*\{"?n"?:"?(\d+)"?\}')
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[(\d+),(\d+)\]")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}")
_MESH_AXIS = re.compile(r"'([^']+)'=(\d+)")
_WHOLE_NUMBER = re.compile(r"[su]\d+\[\]")


class Instruction(NamedTuple):
    """One line of the program."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str  # everything after the opcode's parenthesis


class Traffic(NamedTuple):
    """What one device sends and reads when the program runs once."""

    counts: dict[str, int]  # how often, for each kind of collective
    sent: dict[str, float]  # bytes, for each kind of collective
    memory: float  # bytes read and written

    @property
    def sent_in_all(self) -> float:
        """Bytes sent in all collectives."""
        return sum(self.sent.values())


def traffic(text: str, devices: int) -> Traffic:
    """Add up the traffic of a compiled program, given as text, for so many devices."""
    computations, entry = parse(text)
    counts: dict[str, int] = {}
    sent: dict[str, float] = {}
    memory = 0.0
    for name, times in executions(computations, entry).items():
        body = computations[name]
        types = {instruction.name: instruction.type for instruction in body}
        for instruction in body:
            for kind, operands, taking_part in _collectives(instruction, types, computations, devices):
                counts[kind] = counts.get(kind, 0) + times
                sent[kind] = sent.get(kind, 0.0) + times * SENT[kind](operands, taking_part)
            memory += times * touched(instruction, types, computations)
    return Traffic(dict(sorted(counts.items())), dict(sorted(sent.items())), memory)


def _collectives(
    instruction: Instruction, types: Mapping[str, str], computations: Mapping[str, list[Instruction]], devices: int
) -> Iterator[tuple[str, int, int]]:
    """For each collective of an instruction (itself, or fused into it): its kind, the operands' bytes, the devices.

    The TPU's compiler fuses an all-reduce with the slice that a device needs; then only the slice is sent.
    """
    kind = instruction.opcode.removesuffix("-start")
    if kind in SENT:
        operands = sum(size(types.get(operand, "")) for operand in instruction.operands)
        yield kind, operands, group(instruction.rest, devices)
    elif kind == "fusion":
        inside = _inside(instruction, computations)
        inner_types = {inner.name: inner.type for inner in inside}
        for inner in inside:
            for fused, operands, taking_part in _collectives(inner, inner_types, computations, devices):
                scatters = fused == "all-reduce" and size(instruction.type) < size(inner.type)
                yield "reduce-scatter" if scatters else fused, operands, taking_part


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


def executions(computations: Mapping[str, list[Instruction]], entry: str) -> dict[str, int]:
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


def _trips(loop: Instruction, computations: Mapping[str, list[Instruction]]) -> int:
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


def _inside(fusion: Instruction, computations: Mapping[str, list[Instruction]]) -> list[Instruction]:
    """The instructions inside a fusion."""
    return computations.get(next((name for _, name in _CALLED.findall(fusion.rest)), ""), [])


def size(kind: str) -> int:
    """Bytes of a type such as f32[8,128]{1,0}, or of a tuple of types."""
    return sum(int(_bytes(name) * math.prod(map(int, dims.split(",") if dims else ()))) for name, dims in _shapes(kind))


def _shapes(kind: str) -> Iterator[tuple[str, str]]:
    for name, dims in _SHAPE.findall(kind):
        yield name, dims.replace("<=", "")


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


def touched(instruction: Instruction, types: Mapping[str, str], computations: Mapping[str, list[Instruction]]) -> float:
    """Bytes that an instruction reads and writes."""
    if instruction.opcode in FREE or instruction.opcode.endswith("-done"):
        return 0.0
    operands = [size(types.get(operand, "")) for operand in instruction.operands]
    result = size(instruction.type)
    match instruction.opcode:
        case "dynamic-slice" | "slice" | "gather":
            return 2 * result
        case "dynamic-update-slice":
            return 2 * operands[1] if len(operands) > 1 else result
        case "fusion":
            return _fusion(instruction, operands, result, computations)
    return sum(operands) + result


def _fusion(
    instruction: Instruction, operands: list[int], result: int, computations: Mapping[str, list[Instruction]]
) -> float:
    """Bytes of a fusion: if it takes only slices of an operand, the slices; if it updates in place, the update."""
    inside = _inside(instruction, computations)
    types = {inner.name: inner.type for inner in inside}
    read = list(map(float, operands))
    for parameter in inside:
        if parameter.opcode != "parameter":
            continue
        number = int(parameter.rest.split(")")[0])
        users = [inner for inner in inside if parameter.name in inner.operands]
        if users and number < len(read) and all(_takes_a_slice(user, parameter.name) for user in users):
            read[number] = min(read[number], float(sum(_slice(user, types) for user in users)))
    written = float(result)
    if inside and inside[-1].opcode == "dynamic-update-slice":
        written = min(written, float(_slice(inside[-1], types)))
    return sum(read) + written


def _takes_a_slice(user: Instruction, name: str) -> bool:
    return user.opcode in {"dynamic-slice", "slice", "dynamic-update-slice"} and user.operands[0] == name


def _slice(user: Instruction, types: Mapping[str, str]) -> int:
    return size(types.get(user.operands[1], "")) if user.opcode == "dynamic-update-slice" else size(user.type)


def _arguments(rest: str) -> str:
    """The text between an opcode's parentheses."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return rest[:place]
    return rest
