"""Two steps of ViT and ConvNeXt on one device and on eight that share them; prints the differences for a test."""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import json

import jax
import jax.numpy as jnp
import numpy as np

from metapl import algorithms, models
from metapl.algorithms.supervised import Supervised
from metapl.models.convnext import ConvNeXt
from metapl.models.vit import ViT
from metapl.optim import Optimizer
from metapl.system import runtime, sharding
from metapl.system.sharding import Parallel
from metapl.types import Views

NETWORKS = {
    "vit": ViT(patch=4, resolution=16, width=16, depth=2, heads=2, registers=1, layer_scale=0.5, survival=0.8),
    "convnext": ConvNeXt(channels=8, blocks=(1, 1, 1, 1), layer_scale=0.1),
}
MODES = {"single": Parallel("single"), "hybrid": Parallel("hybrid", 4), "weights": Parallel("weights")}

# The way for CPUs takes long to compile; other tests compare it with the usual one.
runtime.on_cpus = lambda quick, usual, *args: usual(*args)


def far(one, many) -> float:
    pairs = zip(*map(jax.tree.leaves, (one, many)), strict=True)
    return max(float(np.linalg.norm(a - b) / (np.linalg.norm(a) + 1e-3)) for a, b in pairs)


def main() -> None:
    labels = jnp.arange(8, dtype=jnp.int32) % 4
    x = jax.random.normal(jax.random.key(0), (8, 32, 32, 3))
    seen, told = Views(x, labels, x[:0], x[:0]), {}
    for name, model in NETWORKS.items():
        algorithm = algorithms.build(Supervised(Optimizer(0.01, momentum=0.9)), models.build(model, 4), 10)
        start = jax.device_get(jax.jit(lambda seen, its=algorithm: its.init(jax.random.key(9), seen, None))(seen))
        one = None
        for mode, parallel in MODES.items():
            layout = sharding.layout(parallel, {"labeled_batch": 8})

            def step(state, seen, key, layout=layout, algorithm=algorithm):
                seen_as = seen._replace(labeled=sharding.as_networks_see(seen.labeled))
                return layout.constrain(algorithm.step(state, seen_as, key)[0])

            state = jax.device_put(start, layout.shardings(start)) if layout.mesh else start
            step, placed = jax.jit(layout(step)), layout.put(seen)
            for number in range(2):
                state = step(state, placed, jax.random.key(number))
            split = sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(state.params))
            state = jax.device_get(state)
            one = one or state
            told[f"{name}, {mode}"] = {"far": far(one, state), "moved": far(start.params, state.params), "split": split}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
