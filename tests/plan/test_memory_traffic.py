"""Bytes that instructions read and write, in a hand-written program as the TPU's compiler writes them."""

import pytest

from metapl.plan import traffic
from metapl.plan.hlo import parse, size, stored_size, without_fast_memory
from metapl.plan.memory_traffic import kind_of, touched

# Stacks hold ten rows of 32 bytes (f32[8]); x and y are one row.
TEXT = """HloModule jit_step, is_scheduled=true

%inner (q0: f32[10,8], q1: s32[]) -> f32[1,8] {
  %q0 = f32[10,8]{1,0} parameter(0)
  %q1 = s32[] parameter(1)
  ROOT %row = f32[1,8]{1,0} dynamic-slice(%q0, %q1, %q1), dynamic_slice_sizes={1,8}
}

%nested (p0: f32[10,8], p1: s32[]) -> f32[8] {
  %p0 = f32[10,8]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %taken = f32[1,8]{1,0} fusion(%p0, %p1), kind=kLoop, calls=%inner
  ROOT %flat = f32[8]{0} bitcast(%taken)
}

%kept (p0: f32[10,8], p1: f32[8], p2: s32[]) -> (f32[8], f32[10,8]) {
  %p0 = f32[10,8]{1,0} parameter(0)
  %p1 = f32[8]{0} parameter(1)
  %p2 = s32[] parameter(2)
  %twice = f32[8]{0} add(%p1, %p1)
  %row = f32[1,8]{1,0} bitcast(%twice)
  %stack = f32[10,8]{1,0} dynamic-update-slice(%p0, %row, %p2, %p2)
  ROOT %both = (f32[8]{0}, f32[10,8]{1,0}) tuple(%twice, %stack)
}

%all_of_it (p0: f32[10,8], p1: s32[]) -> f32[10,8] {
  %p0 = f32[10,8]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %one = f32[1,8]{1,0} dynamic-slice(%p0, %p1, %p1), dynamic_slice_sizes={1,8}
  ROOT %whole = f32[10,8]{1,0} add(%p0, %p0)
}

%product (p0: f32[8], p1: f32[8]) -> f32[] {
  %p0 = f32[8]{0} parameter(0)
  %p1 = f32[8]{0} parameter(1)
  ROOT %dot = f32[] dot(%p0, %p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

ENTRY %main (stack: f32[10,8], x: f32[8], i: s32[]) -> f32[8] {
  %stack = f32[10,8]{1,0} parameter(0)
  %x = f32[8]{0} parameter(1)
  %i = s32[] parameter(2)
  %nested_slice = f32[8]{0} fusion(%stack, %i), kind=kLoop, calls=%nested
  %in_place = (f32[8]{0}, f32[10,8]{1,0}) fusion(%stack, %x, %i), kind=kLoop, calls=%kept
  %everything = f32[10,8]{1,0} fusion(%stack, %i), kind=kLoop, calls=%all_of_it
  %fast = f32[10,8]{1,0:T(8,128)S(1)} copy(%stack)
  %copied = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(%x)
  %here = f32[8]{0} copy-done(%copied)
  %permuted = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}
  %there = f32[8]{0} collective-permute-done(%permuted)
  %dot = f32[] fusion(%x, %here), kind=kOutput, calls=%product
  ROOT %sum = f32[8]{0} add(%x, %there)
}
"""
ROW, STACK, INDEX = 32, 320, 4
PROGRAM, ENTRY = parse(TEXT)


@pytest.mark.parametrize(
    ("name", "moved", "kind"),
    [
        ("nested_slice", ROW + INDEX + ROW, "copies"),
        ("in_place", ROW + INDEX + 2 * ROW, "the rest"),
        ("everything", STACK + INDEX + STACK, "the rest"),
        ("fast", STACK, "copies"),
        ("copied", 2 * ROW + 4, "copies"),
        ("here", 0, "copies"),
        ("permuted", 2 * ROW + 8, "collectives"),
        ("dot", 2 * ROW + 4, "convolutions"),
        ("sum", 3 * ROW, "the rest"),
    ],
)
def test_an_instruction_moves_what_it_needs(name, moved, kind):
    body = PROGRAM[ENTRY]
    instruction = next(each for each in body if each.name == name)
    assert touched(instruction, {each.name: each.type for each in body}, PROGRAM) == moved
    assert moved == 0 or kind_of(instruction, PROGRAM) == kind


def test_the_kinds_add_up():
    found = traffic.of(TEXT, 2)
    assert set(found.memory) == {"convolutions", "collectives", "copies", "the rest"}
    assert found.memory["the rest"] == 3 * ROW + INDEX + 2 * STACK + INDEX + 3 * ROW


def test_fast_memory_is_no_traffic():
    assert size(without_fast_memory("(f32[8]{0:T(256)S(1)}, f32[8]{0:T(256)}, bf16[4])")) == 32 + 8


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("bf16[17,2,5,72]{3,0,2,1:T(8,128)(2,1)}", 24 * 2 * 5 * 128 * 2),
        ("f32[300]{0:T(256)}", 512 * 4),
        ("f32[4,3]{1,0}", 48),
        ("(s32[]{:T(128)}, pred[3])", 4 + 3),
    ],
)
def test_tiles_are_stored_whole(kind, stored):
    assert stored_size(kind) == stored


def test_padding_counts_by_itself():
    found = traffic.of(TEXT.replace("f32[8]{0}", "f32[8]{0:T(256)}"), 2)
    assert found.memory_in_all == traffic.of(TEXT, 2).memory_in_all == traffic.of(TEXT, 2).stored < found.stored
