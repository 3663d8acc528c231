"""Who holds what: many devices give the numbers of one, and what cannot be shared evenly is named."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.schema import ConfigError, validate
from metapl.system import sharding
from metapl.system.sharding import Parallel, layout


def told_by_eight(*pieces: str) -> dict:
    """What a process with eight devices tells."""
    command, root = [sys.executable, "-m", "tests.system.eight_shared", *pieces], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told() -> dict:
    return told_by_eight("loop", "views")


@pytest.fixture(scope="module")
def networks() -> dict:
    """States of convolutional networks: a minute of compiling."""
    return told_by_eight("networks")["networks"]


def test_eight_devices_give_the_loops_numbers_of_one(told):
    """The loop's reports and weights."""
    assert {name: one["far"] for name, one in told["loop"].items() if one["far"] > 1e-3} == {}


def test_the_loops_weights_in_parts_stay_in_parts(told):
    shares = {"weights": 1 / 8, "groups": 1 / 4}
    for name, one in told["loop"].items():
        assert one["share"] == next((share for mode, share in shares.items() if mode in name), 1), name
        assert (one["stay"], one["compiled"]) == (True, 1), name


def test_views_are_made_where_their_pictures_are(told):
    """But for the partner, that one device has of the next."""
    assert set(told["views"]["next"]) == {"collective-permute"}
    assert "all-gather" in told["views"]["any"]


def test_eight_devices_give_the_numbers_of_one(networks):
    """Every leaf of the state after three steps.

    The farthest are shifts before a batch norm, whose gradient is nothing but rounding: 4e-4. A wrong one is off by 1.
    """
    assert {name: one["far"] for name, one in networks.items() if one["far"] > 1e-3} == {}
    assert networks["stacked, hybrid"]["far"] < 1e-5, "in doubles"
    assert all(one["moved"] > 0.1 for one in networks.values())


def test_a_split_width_is_exchanged_at_its_borders(networks):
    assert {name: one["permutes"] > 0 for name, one in networks.items()} == {
        name: "hybrid" in name for name in networks
    }


def test_weights_in_parts_stay_in_parts(networks):
    for name, one in networks.items():
        fewest = 10 if name.startswith("one_convolution") else 20
        assert (one["split"] > fewest) == name.endswith(("hybrid", "groups")), name


def test_memory_falls_as_more_devices_share_a_replica(networks):
    """Of the EfficientNet the state alone: most of its widths are too narrow here to be shared, so each device computes
    on more pictures than in data parallel."""
    for network, mode in (("wide_resnet", "data"), ("efficientnet", "single")):
        wide, narrow = (networks[f"{network}, {mode}"] for mode in (mode, "hybrid"))
        assert narrow["state_bytes"] < 0.4 * wide["state_bytes"]
    assert networks["wide_resnet, hybrid"]["bytes"] < 0.9 * networks["wide_resnet, data"]["bytes"]
    kernel = {"kernel": jax.ShapeDtypeStruct((3, 3, 64, 64), jnp.float32)}
    layouts = (layout(Parallel("hybrid", model), {}, DEVICES) for model in (2, 4, 8))
    parts = [one.shardings(kernel)["kernel"].shard_shape((3, 3, 64, 64)) for one in layouts]
    assert parts == [(3, 3, 64, 32), (3, 3, 64, 16), (3, 3, 64, 8)]


def test_states_are_given_away(networks):
    for name, one in networks.items():
        assert one["state_bytes"] - one["donated_bytes"] < max(0.03 * one["state_bytes"], 512), name  # single numbers


def test_one_device_has_no_layout():
    alone = layout(Parallel(), {"labeled_batch": 7})
    assert alone is sharding.SINGLE
    tree = {"kernel": np.ones((2, 3))}
    assert alone.put(tree) is tree
    assert alone.constrain(tree) is tree
    assert alone(len) is len
    assert sharding.as_networks_see(jnp.ones((2, 3, 3, 1))).shape == (2, 3, 3, 1)


class Device:
    """One that this machine does not have."""

    platform, device_kind, process_index = "none", "none", 0

    def __init__(self, number: int) -> None:
        self.id = number


DEVICES = [Device(number) for number in range(8)]


def test_what_does_not_divide_is_named():
    sizes = {"stages.0.labeled_batch": 30, "stages.0.unlabeled_batch": 32}
    with pytest.raises(ConfigError, match=r"stages.0.labeled_batch = 30 does not divide among 8; 24 or 32 would"):
        layout(Parallel("data"), sizes, DEVICES)
    with pytest.raises(ConfigError, match=r"parallel.model = 3 does not divide the 8 devices"):
        layout(Parallel("hybrid", 3), sizes, DEVICES)
    found = layout(Parallel("auto"), sizes, DEVICES)
    assert found.mesh is None
    assert "only one of 8 devices is used: stages.0.labeled_batch = 30 does not divide" in found.words
    two = layout(Parallel("hybrid", 4), sizes, DEVICES)
    assert dict(two.mesh.shape) == {"data": 2, "model": 4}
    assert dict(two.rules)["examples"] == "data", "30 examples are for 2 replicas, not for 8 devices"


def test_kernels_are_split_along_a_dimension_that_divides():
    shapes = {
        "conv": {"kernel": jax.ShapeDtypeStruct((1, 3, 3, 16, 32), jnp.float32)},
        "odd": {"kernel": jax.ShapeDtypeStruct((1, 3, 3, 3, 6), jnp.float32)},
        "norm": {"scale": jax.ShapeDtypeStruct((1, 32), jnp.float32)},
        "inputs": {"kernel": jax.ShapeDtypeStruct((8, 12, 10), jnp.float32)},
    }
    found = layout(Parallel("hybrid", 4), {}, DEVICES).shardings(shapes, leading=1)
    assert {name: next(iter(leaves.values())).spec for name, leaves in found.items()} == {
        "conv": jax.P(None, None, None, None, "model"),
        "odd": jax.P(),
        "norm": jax.P(),
        "inputs": jax.P(None, "model"),
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Parallel("hybrid"), "mode 'hybrid' needs a model above 1, got 1"),
        (Parallel("data", 2), "a model above 1 needs mode 'hybrid' or 'weights', got 'data' and 2"),
        (Parallel("auto", 4), "a model above 1 needs mode 'hybrid' or 'weights', got 'auto' and 4"),
    ],
)
def test_groups_go_with_modes_that_have_them(wrong, message):
    with pytest.raises(ConfigError, match=message):
        validate(wrong)


def test_groups_can_share_the_weights_alone():
    """Every device has its own examples; of a kernel it has as many parts as a group has members."""
    kernel = {"kernel": jax.ShapeDtypeStruct((3, 3, 64, 64), jnp.float32)}
    x = jax.ShapeDtypeStruct((8, 4, 4, 3), jnp.float32)
    for model, part in ((4, 16), (1, 8)):
        found = layout(Parallel("weights", model), {"labeled_batch": 8}, DEVICES)
        assert found.shardings(kernel)["kernel"].shard_shape((3, 3, 64, 64)) == (3, 3, 64, part)
        assert found.rows((8, 2)).shard_shape((8, 2)) == (1, 2)
        assert "(('data', 'model'), None, None, None)" in str(jax.make_jaxpr(found(sharding.activations))(x))
    with pytest.raises(ConfigError, match="labeled_batch = 4 does not divide among 8"):
        layout(Parallel("weights", 4), {"labeled_batch": 4}, DEVICES)
    assert "groups of 4 share all weights" in layout(Parallel("weights", 4), {}, DEVICES).words


def test_a_width_that_a_stride_makes_too_narrow_to_share_is_whole_before():
    four = layout(Parallel("hybrid", 4), {}, DEVICES)
    x = jax.ShapeDtypeStruct((8, 4, 4, 3), jnp.float32)
    names = [str(jax.make_jaxpr(four(lambda x, s=s: sharding.activations(x, s)))(x)) for s in (1, 2)]
    assert names[0].count("model") == names[1].count("model") + 1  # beside the mesh itself


def test_what_a_loop_goes_along_is_not_split():
    four = layout(Parallel("hybrid", 4), {}, DEVICES)
    stack = {"stage1_blocks": {"kernel": jax.ShapeDtypeStruct((64, 1, 1, 8, 4), jnp.float32)}}
    assert four.shardings(stack)["stage1_blocks"]["kernel"].shard_shape((64, 1, 1, 8, 4)) == (64, 1, 1, 2, 4)


def test_parts_of_a_batch_must_divide_too():
    with pytest.raises(ConfigError, match="labeled_batch / microbatches = 4 does not divide among 8"):
        layout(Parallel("data"), {"labeled_batch": 16}, DEVICES, {"labeled_batch / microbatches": 4})


def chips(*sides: int) -> list[SimpleNamespace]:
    """A slice of TPUs with one device for each chip, as JAX describes it."""
    places = [tuple(map(int, reversed(place))) for place in np.ndindex(*reversed(sides))]
    kind = {"platform": "tpu", "device_kind": "TPU v5 lite", "process_index": 0, "core_on_chip": 0}
    return [SimpleNamespace(id=number, coords=place, **kind) for number, place in enumerate(places)]


@pytest.mark.parametrize("members", [1, 2, 4, 8, 16])
def test_groups_need_not_be_a_whole_side_of_the_machine(members):
    shape = (16 // members, members)
    found = sharding.device_grid(shape, chips(4, 4, 1))
    assert found.shape == shape
    assert {device.id for device in found.flat} == set(range(16))


def test_devices_that_are_no_block_are_refused_with_a_sentence():
    with pytest.raises(
        ConfigError, match=r"6 devices of this machine cannot be arranged as 3 × 2: use a rectangular block"
    ):
        sharding.device_grid((3, 2), chips(4, 4, 1)[:6])
