"""The memory that a step needs on one device, from the compiler's own plan or from its refusal."""

import re
from typing import Any, NamedTuple

import jax

from metapl.types import PyTree

KINDS = {"params": "weights", "stats": "statistics", "opt_state": "optimizer", "average": "average"}
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

# Two messages of the compiler: before it has placed buffers (then only temporaries count), and after.
_NEEDED = (
    re.compile(r"temporaries \(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)"),
    re.compile(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) \w+"),
)


class DeviceMemory(NamedTuple):
    """Bytes on one device."""

    state: dict[str, int]  # weights, statistics, optimizer, average, other: by their shapes
    batch: int  # by its shape
    arguments: int  # state and batch as they are in memory: rounded up to whole tiles
    outputs: int  # without those that reuse the memory of arguments
    temporaries: int  # activations, gradients, gathered weights
    program: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.arguments + self.outputs + self.temporaries + self.program


class Refusal(NamedTuple):
    """The compiler's message about a program that does not fit."""

    needed: int  # bytes
    granted: int


def of(compiled: Any, state: PyTree, batch: PyTree) -> DeviceMemory:
    """The memory of a compiled program, from the compiler's plan."""
    plan = compiled.memory_analysis()
    return DeviceMemory(
        by_kind(state),
        sum(map(held, jax.tree.leaves(batch))),
        plan.argument_size_in_bytes,
        plan.output_size_in_bytes - plan.alias_size_in_bytes,
        plan.temp_size_in_bytes,
        plan.generated_code_size_in_bytes,
    )


def by_kind(state: PyTree) -> dict[str, int]:
    """Bytes of a state on each device, by kind: weights, statistics, optimizer, …"""
    kinds = dict.fromkeys([*KINDS.values(), "other"], 0)
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        names = [getattr(step, "name", "") for step in path]
        kind = next((KINDS[name] for name in names if name in KINDS), "other")  # the outermost: an average has params
        kinds[kind] += held(leaf)
    return {kind: size for kind, size in kinds.items() if size}


def held(leaf: Any) -> int:
    """Bytes of an array that one device holds."""
    shape = leaf.shape if leaf.sharding is None else leaf.sharding.shard_shape(leaf.shape)
    return jax.ShapeDtypeStruct(shape, leaf.dtype).size * leaf.dtype.itemsize


def refusal(message: str) -> Refusal | None:
    """The needed and the available memory in a compiler's error; None if it is another error."""
    match = next(filter(None, (pattern.search(message) for pattern in _NEEDED)), None)
    if "RESOURCE_EXHAUSTED" not in message or not match:
        return None
    needed, unit, granted, granted_unit = match.groups()
    return Refusal(int(float(needed) * UNITS[unit]), int(float(granted) * UNITS[granted_unit]))
