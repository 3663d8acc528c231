"""Bytes that the instructions of a compiled program read from a device's memory and write to it.

An instruction reads its operands and writes its results. What is inside a fusion stays on the chip. Not all of an array
counts:

| what                                             | counts                                                        |
|--------------------------------------------------|---------------------------------------------------------------|
| a fusion takes only slices of an operand         | the slices                                                    |
| an update of a part of an array, in place        | the part                                                      |
| the start of an asynchronous copy or collective  | source and target once: the results name the source again     |
| arrays in a chip's own fast memory (S(1), S(2)…) | nothing                                                       |

An operand that a convolution reads several times counts once. So this is the least that the program moves. TPUs store
arrays in tiles, and move whole ones: with `stored_size` the padding of tiles that are not full counts, too.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from metapl.plan.hlo import FREE, Instruction, Program, inside, size, without_fast_memory

SLICES = ("dynamic-slice", "slice", "gather")
ALIASED = ("copy-start", "collective-permute-start", "all-gather-start")
MATRIX = ("convolution", "dot")


Measure = Callable[[str], int]  # from a type, such as f32[8,128]{1,0}, to bytes


class Context(NamedTuple):
    """What every function needs that looks into a fusion."""

    program: Program
    measure: Measure


class Reader(NamedTuple):
    """The instructions of one computation, by name and by operand."""

    instructions: list[Instruction]
    types: dict[str, str]
    users: dict[str, list[Instruction]]


def reader(instructions: list[Instruction]) -> Reader:
    """Index the instructions of a computation."""
    users: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    return Reader(instructions, {each.name: each.type for each in instructions}, users)


def touched(instruction: Instruction, types: Mapping[str, str], program: Program, measure: Measure = size) -> float:
    """Bytes that an instruction reads and writes; `measure` gives the bytes of a type: `size` or `stored_size`."""
    opcode = instruction.opcode
    if opcode in FREE or opcode.endswith("-done"):
        return 0.0
    operands = [_in_memory(types.get(operand, ""), measure) for operand in instruction.operands]
    result = _in_memory(instruction.type, measure)
    if opcode == "fusion":
        return _fusion(instruction, operands, result, Context(program, measure))
    if opcode in SLICES:
        return 2 * result
    if opcode == "dynamic-update-slice":
        return 2 * operands[1]
    if opcode in ALIASED and instruction.type.startswith("("):
        return result
    return sum(operands) + result


def _in_memory(kind: str, measure: Measure) -> float:
    return float(measure(without_fast_memory(kind)))


def kind_of(instruction: Instruction, program: Program) -> str:
    """What an instruction's bytes are for: convolutions and products, collectives, copies, or the rest."""
    opcodes = {instruction.opcode.removesuffix("-start")}
    if instruction.opcode == "fusion":
        opcodes = set(_opcodes(instruction, program))
    if opcodes & set(MATRIX):
        return "convolutions"
    if any(opcode.startswith(("all-", "collective-", "reduce-scatter", "ragged-")) for opcode in opcodes):
        return "collectives"
    return "copies" if opcodes <= MOVES else "the rest"


# Instructions that compute nothing.
MOVES = {
    *SLICES, *FREE, "copy", "transpose", "reshape", "concatenate", "pad", "broadcast", "reverse", "scatter", "convert",
    "dynamic-update-slice", "bitcast-convert",
}  # fmt: skip


def _opcodes(fusion: Instruction, program: Program) -> Iterator[str]:
    for inner in inside(fusion, program):
        if inner.opcode == "fusion":
            yield from _opcodes(inner, program)
        else:
            yield inner.opcode


def _fusion(fusion: Instruction, operands: list[float], result: float, context: Context) -> float:
    body = reader(inside(fusion, context.program))
    if not body.instructions:
        return sum(operands) + result
    read = 0.0
    for parameter, operand in _parameters(body, operands):
        read += min(operand, _read(parameter.name, body, context, operand))
    return read + min(result, _written(body.instructions[-1], body, context))


def _parameters(body: Reader, operands: list[float]) -> Iterator[tuple[Instruction, float]]:
    for parameter in body.instructions:
        if parameter.opcode == "parameter":
            yield parameter, operands[int(parameter.rest.split(")")[0])]


def _read(name: str, body: Reader, context: Context, whole: float) -> float:
    """Bytes that a computation reads of an array of its own: those of its slices, if it takes nothing else of it."""
    total = 0.0
    for user in body.users.get(name, []):
        first = user.operands[0] == name
        if first and user.opcode in SLICES:
            total += context.measure(user.type)
        elif first and user.opcode == "dynamic-update-slice":
            continue  # in place: what is not updated stays where it is
        elif user.opcode == "bitcast":
            total += _read(user.name, body, context, whole)
        elif user.opcode == "fusion":
            total += _read_by_inner(user, name, context, whole)
        elif user.opcode != "tuple":
            return whole
    return total


def _read_by_inner(fusion: Instruction, name: str, context: Context, whole: float) -> float:
    body, total = reader(inside(fusion, context.program)), 0.0
    for parameter in body.instructions:
        if parameter.opcode == "parameter" and fusion.operands[int(parameter.rest.split(")")[0])] == name:
            total += _read(parameter.name, body, context, whole)
    return total


def _written(result: Instruction, body: Reader, context: Context) -> float:
    """Bytes that a computation writes for one of its results."""
    by_name = {each.name: each for each in body.instructions}
    if result.opcode == "tuple":
        return sum(_written(by_name[operand], body, context) for operand in result.operands if operand in by_name)
    if result.opcode == "dynamic-update-slice":
        return float(context.measure(body.types.get(result.operands[1], "")))
    if result.opcode == "bitcast" and result.operands[0] in by_name:
        return _written(by_name[result.operands[0]], body, context)
    if result.opcode == "parameter":
        return 0.0
    if result.opcode == "fusion" and (inner := reader(inside(result, context.program))).instructions:
        return _written(inner.instructions[-1], inner, context)
    return float(context.measure(result.type))
