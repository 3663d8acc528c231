import jax.numpy as jnp
import numpy as np
import pytest

from metapl.parts import cut, fitting, join


def test_a_part_has_every_kth_example_and_joined_they_are_in_order():
    rows = jnp.arange(24).reshape(12, 2)
    parts = cut(rows, 3, "batch")
    np.testing.assert_array_equal(parts[1], rows[1::3])
    np.testing.assert_array_equal(join(parts), rows)


@pytest.mark.parametrize(
    ("parts", "examples", "devices", "most"),
    [(8, 16384, 2048, 8), (8, 2048, 2048, 1), (16, 16384, 2048, 8), (4, 12, 1, 4), (4, 6, 4, 1), (1, 7, 1, 1)],
)
def test_every_device_keeps_as_many_examples_in_each_part(parts, examples, devices, most):
    assert fitting(parts, examples, devices) == most
