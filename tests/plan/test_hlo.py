"""Traffic of a program, from its text: of a hand-written one, whose numbers are known, and of a real one."""

import jax
import jax.numpy as jnp
import pytest

from metapl.plan import hlo, traffic

TEXT = """HloModule jit_step, entry_computation_layout={(f32[8,4]{1,0})->f32[8,4]{1,0}}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%sliced (p0: f32[10,4], p1: s32[]) -> f32[1,4] {
  %p0 = f32[10,4]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %one = f32[1,4]{1,0} dynamic-slice(%p0, %p1, %zero), dynamic_slice_sizes={1,4}
}

%body (c: (s32[], bf16[8,4], f32[10,4])) -> (s32[], bf16[8,4], f32[10,4]) {
  %c = (s32[], bf16[8,4]{1,0:T(8,128)(2,1)}, /*index=2*/f32[10,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %h = bf16[8,4]{1,0:T(8,128)(2,1)} get-tuple-element(%c), index=1
  %w = f32[10,4]{1,0} get-tuple-element(%c), index=2
  %part = f32[1,4]{1,0} fusion(%w, %i), kind=kLoop, calls=%sliced
  %moved = bf16[8,4]{1,0} collective-permute(%h), channel_id=3, source_target_pairs={{0,1},{1,0}}
  %gathered = bf16[32,4]{1,0} all-gather(%moved), replica_groups=[2,4]<=[8], dimensions={0}
  ROOT %t = (s32[], bf16[8,4]{1,0}, f32[10,4]{1,0}) tuple(%i, %moved, %w)
}

%condition (c: (s32[], bf16[8,4], f32[10,4])) -> pred[] {
  %c = (s32[], bf16[8,4]{1,0}, f32[10,4]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

%wrapped (q: f32[16]) -> f32[4] {
  %q = f32[16]{0} parameter(0)
  ROOT %rs = f32[4]{0} reduce-scatter(%q), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=%add
}

ENTRY %main (a: f32[8,4], b: (s32[], bf16[8,4], f32[10,4]), v: f32[16]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = (s32[], bf16[8,4]{1,0}, f32[10,4]{1,0}) parameter(1)
  %v = f32[16]{0} parameter(2)
  %loop = (s32[], bf16[8,4]{1,0}, f32[10,4]{1,0}) while(%b), condition=%condition, body=%body, TRIPS
  %begun = ((f32[16]{0}), f32[4]{0}, u32[]) async-start(%v), calls=%wrapped
  %ended = f32[4]{0} async-done(%begun)
  %total-start = f32[8,4]{1,0} all-reduce-start(%a), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%add
  ROOT %total = f32[8,4]{1,0} all-reduce-done(%total-start)
}
""".replace("TRIPS", 'backend_config={"known_trip_count":{"n":"5"}}')


def test_a_loop_counts_as_often_as_it_runs_and_groups_count_their_devices():
    found = traffic.of(TEXT, devices=8)
    assert found.counts == {"all-gather": 5, "all-reduce": 1, "collective-permute": 5, "reduce-scatter": 1}
    assert found.sent == {
        "all-gather": 5 * 64 * 3,  # bf16[8,4] to three other devices
        "all-reduce": 2 * 128 * 1 / 2,
        "collective-permute": 5 * 64,
        "reduce-scatter": 64 * 3 / 4,
    }
    assert found.sent_in_all == sum(found.sent.values())
    # In the loop: a slice of 16 bytes read and written, with its index; 64 + 64; 64 + 256. After it 64 + 16, 128 + 128.
    assert found.memory_in_all == 5 * (16 + 4 + 16 + 128 + 320) + 80 + 256


# As the TPU's compiler writes it: no trip counts, groups as axes of a mesh, all-reduces fused with slices.
TPU_TEXT = """HloModule jit_step, is_scheduled=true

%summed.clone (p: f32[8,4]) -> f32[2,4] {
  %p = f32[8,4]{1,0} parameter(0)
  %zero = s32[]{:T(128)} constant(0)
  %all = f32[8,4]{1,0} all-reduce(%p), replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}, to_apply=%add
  ROOT %own = f32[2,4]{1,0} dynamic-slice(%all, %zero, %zero), dynamic_slice_sizes={2,4}
}

%body (c: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %c = (s32[]{:T(128)}, f32[8,4]{1,0}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%c), index=0
  %h = f32[8,4]{1,0} get-tuple-element(%c), index=1
  %scattered = f32[2,4]{1,0} fusion(%h), kind=kCustom, calls=%summed.clone, backend_config={"estimated_cycles":"30"}
  %g = f32[8,4]{1,0} all-gather(%scattered), replica_groups=mesh['a'=1,'b'=4,'c'=2], device_ids=([2,4]T(1,0)) {'b'}
  %whole = f32[8,4]{1,0} all-reduce(%g), replica_groups=mesh['a'=2,'b'=4] {'a','b'}, to_apply=%add
  ROOT %t = (s32[]{:T(128)}, f32[8,4]{1,0}) tuple(%i, %whole)
}

%condition (c: (s32[], f32[8,4])) -> pred[] {
  %seven = s32[]{:T(128)} constant(7)
  %c = (s32[]{:T(128)}, f32[8,4]{1,0}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%c), index=0
  ROOT %less = pred[]{:T(512)} compare(%i, %seven), direction=LT
}

%until (c: (s32[], f32[8,4], s32[])) -> pred[] {
  %c = (s32[]{:T(128)}, f32[8,4]{1,0}, s32[]{:T(128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%c), index=0
  %last = s32[]{:T(128)} get-tuple-element(%c), index=2
  ROOT %less = pred[]{:T(512)} compare(%i, %last), direction=LT
}

%step (c: (s32[], f32[8,4], s32[])) -> (s32[], f32[8,4], s32[]) {
  %c = (s32[]{:T(128)}, f32[8,4]{1,0}, s32[]{:T(128)}) parameter(0)
  %inner = (s32[]{:T(128)}, f32[8,4]{1,0}) while(%c), condition=%condition, body=%body
}

ENTRY %main (b: (s32[], f32[8,4], s32[])) -> (s32[], f32[8,4], s32[]) {
  %b = (s32[]{:T(128)}, f32[8,4]{1,0}, s32[]{:T(128)}) parameter(0)
  ROOT %steps = (s32[]{:T(128)}, f32[8,4]{1,0}, s32[]{:T(128)}) while(%b), condition=%until, body=%step
}
"""


def test_a_program_for_a_tpu_is_read_as_well():
    found = traffic.of(TPU_TEXT, devices=8)
    assert found.counts == {"all-gather": 7, "all-reduce": 7, "reduce-scatter": 7}
    assert found.sent == {
        "all-gather": 7 * 32 * 3,
        "all-reduce": 7 * 2 * 128 * 7 / 8,
        "reduce-scatter": 7 * 128 * 3 / 4,
    }
    assert found.cycles == 7 * 30


def test_unreadable_groups_are_an_error():
    assert hlo.group("%x), replica_groups={}, to_apply=%add", 8) == 8
    with pytest.raises(ValueError, match="cannot read the replica groups: replica_groups=new"):
        hlo.group("%x), replica_groups=new[3], to_apply=%add", 8)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("f32[8,128]{1,0:T(8,128)}", 4096),
        ("(bf16[4], pred[3], s32[])", 15),
        ("f8e4m3fn[16]", 16),
        ("u4[16]", 8),
        ("token[]", 0),
    ],
)
def test_types_have_sizes(kind, size):
    assert hlo.size(kind) == size


def test_text_without_a_program_has_no_traffic():
    assert traffic.of("nothing", 2) == traffic.Traffic({}, {}, {})


def test_a_real_loop():
    """Seven products of [32, 32]: each reads two matrices and writes one, whatever else the compiler does."""

    def loop(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    shapes = jax.ShapeDtypeStruct((32, 32), jnp.float32), jax.ShapeDtypeStruct((7, 32, 32), jnp.float32)
    found = traffic.of(jax.jit(loop).lower(*shapes).compile().as_text(), 1)
    assert found.counts == {}
    assert 7 * 3 * 4096 <= found.memory_in_all <= 7 * 10 * 4096
