from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.augment.mixup import draw

TARGETS = jax.nn.one_hot(jnp.arange(1000) % 10, 10)


@partial(jax.jit, static_argnames="alpha")
def compiled(inputs, targets, key, alpha):
    mixture = draw(key, len(inputs), alpha, inputs.dtype)
    return mixture.mix(inputs), mixture.mix(targets)


def test_inputs_and_targets_are_mixed_alike():
    inputs = jnp.broadcast_to(TARGETS[:, None, None, :], (1000, 2, 3, 10))
    mixed, targets = compiled(inputs, TARGETS, jax.random.key(0), alpha=0.75)
    np.testing.assert_allclose(mixed, jnp.broadcast_to(targets[:, None, None, :], mixed.shape), rtol=1e-6)
    np.testing.assert_allclose(targets.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 4.0])
def test_parts_are_beta(alpha):
    inputs = jnp.arange(1000.0)[:, None]
    mixed, targets = compiled(inputs, jnp.eye(1000), jax.random.key(1), alpha=alpha)
    part = np.asarray(jnp.diagonal(targets))
    part = part[part < 1]  # an example may meet itself
    assert part.mean() == pytest.approx(0.5, abs=0.05)
    assert part.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.15)
    np.testing.assert_allclose(mixed[:, 0], targets @ inputs[:, 0], rtol=1e-4, atol=1e-2)
