"""One step of every method on eight virtual devices and on one: prints how far the two are apart. Run by a test.

python -m tests.contract.eight_devices [METHOD …]
"""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from metapl import algorithms, models
from metapl.algorithms.mean_teacher import MeanTeacher
from metapl.algorithms.mpl import MPL
from metapl.algorithms.uda import Consistency
from metapl.types import Views
from tests.contract.declared import small, with_declared
from tests.one_convolution import OneConvolution, OneConvolutionModule

models.MODELS[OneConvolution] = OneConvolutionModule
METHODS = {kind.name: small(kind) for kind in algorithms.METHODS} | {
    "mpl, uda teacher": MPL(consistency=Consistency(2.5, 0.7), student_view="strong"),
    "mpl, mixup teacher": MPL(mixup=0.5, labeled_view="strong"),
    "mpl, mean teacher": MPL(own=MeanTeacher()),
}


def views() -> Views:
    keys = jax.random.split(jax.random.key(0), 4)
    x_l, x_u, x_s, x_ls = (jax.random.normal(key, (n, 8, 8, 3)) for key, n in zip(keys, (8, 16, 16, 8), strict=True))
    labels = jnp.arange(8, dtype=jnp.int32) % 4
    told = (0.1 + 0.6 * jax.nn.one_hot(some, 4) for some in (labels, jnp.arange(16) % 4))
    return Views(x_l, labels, x_u, x_s, x_ls, *told)


def distance(one, many) -> float:
    """‖one − many‖ / ‖one‖ over the weights of all networks, and the largest difference of a metric, of 1 or itself."""
    (state, metrics), (other, others) = one, many
    pairs = list(zip(*map(jax.tree.leaves, (state, other)), strict=True))
    floats = [(np.asarray(a), np.asarray(b)) for a, b in pairs if np.issubdtype(np.asarray(a).dtype, np.floating)]
    apart = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in floats) / sum(np.sum(a**2) for a, _ in floats))
    values = [(np.asarray(metrics[name]), np.asarray(others[name])) for name in metrics]
    told = max(np.max(np.abs(a - b) / np.maximum(1, np.abs(a))) for a, b in values)
    return max(float(apart), float(told))


def main() -> None:
    assert jax.device_count() == 8
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    network = models.build(OneConvolution(), 4)
    start = network.init(jax.random.key(9), views().labeled)
    apart = {}
    for name in sys.argv[1:] or METHODS:
        method = METHODS[name]
        algorithm, seen = algorithms.build(method, network, 10), with_declared(views(), method)
        state = algorithm.init(jax.random.key(1), seen, start if method.needs_start else None)
        step = jax.jit(algorithm.step)
        many = step(jax.device_put(state, whole), jax.device_put(seen, split), jax.random.key(2))
        assert len(jax.tree.leaves(many[0])[0].sharding.device_set) == 8
        apart[name] = distance(step(state, seen, jax.random.key(2)), many)
    print(json.dumps(apart))


if __name__ == "__main__":
    main()
