import jax.numpy as jnp
import numpy as np

from metapl.system.microbatches import join, split


def test_a_microbatch_has_every_kth_example_and_joined_they_are_in_order():
    rows = jnp.arange(24).reshape(12, 2)
    microbatches = split(rows, 3, ("batch", None))
    np.testing.assert_array_equal(microbatches[1], rows[1::3])
    np.testing.assert_array_equal(join(microbatches), rows)
