"""The reduced teacher of Appendix E."""

import jax
import jax.numpy as jnp
import numpy as np

from metapl import models
from metapl.models.reduced_teacher import ReducedTeacher


def test_it_is_the_papers_perceptron():
    for hidden, classes in ((128, 10), (512, 1000)):
        network = models.build(ReducedTeacher(hidden=hidden), classes)
        params, stats = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, classes)))
        kernels = [params[name]["kernel"].shape for name in ("hidden1", "hidden2", "hidden3", "hidden4", "head")]
        assert kernels == [(classes, hidden), *[(hidden, hidden)] * 3, (hidden, classes)]
        assert len(params) == 5
        assert not stats


def test_relu_stands_between_the_layers():
    network = models.build(ReducedTeacher(hidden=1, layers=2), classes=2)
    params = {
        "hidden1": {"kernel": jnp.array([[2.0], [-1.0]]), "bias": jnp.array([0.0])},
        "head": {"kernel": jnp.array([[3.0, 1.0]]), "bias": jnp.array([0.5, 0.0])},
    }
    answer, _ = network.apply(params, {}, jnp.array([[0.75, 0.25], [0.25, 0.75]]), train=False)
    np.testing.assert_allclose(answer, [[4.25, 1.25], [0.5, 0.0]], rtol=1e-6)


def test_a_residual_one_starts_as_the_identity():
    network = models.build(ReducedTeacher(hidden=8, residual=True), classes=3)
    given = jnp.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    weights = network.init(jax.random.key(0), given)
    answer, _ = network.apply(weights.params, weights.stats, given, train=True)
    np.testing.assert_allclose(jax.nn.softmax(answer), given, atol=5e-6)
