import jax.numpy as jnp
import numpy as np

from metapl.system.parts import cut, join


def test_a_part_has_every_kth_example_and_joined_they_are_in_order():
    rows = jnp.arange(24).reshape(12, 2)
    parts = cut(rows, 3, ("batch", None))
    np.testing.assert_array_equal(parts[1], rows[1::3])
    np.testing.assert_array_equal(join(parts), rows)
