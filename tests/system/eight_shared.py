"""Steps on one device, on eight that share batches, and on eight that share pictures or weights, too. Run by a test.

Prints, for each network and each way to share, what the test asks about.

python -m tests.system.eight_shared loop|views|networks …      networks takes a minute
"""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import dataclasses
import json
import sys
import time
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from metapl import algorithms, data, models
from metapl import config as configs
from metapl.algorithms.mpl import MPL
from metapl.algorithms.supervised import Supervised
from metapl.augment import randaugment
from metapl.augment.randaugment import RandAugment
from metapl.models import efficientnet, layers
from metapl.models.efficientnet import STAGES, EfficientNet
from metapl.models.microbatches import in_microbatches
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.plan import traffic
from metapl.system import sharding
from metapl.system.sharding import Layout, Parallel
from metapl.train.loop import Hooks, train
from metapl.train.program import prepare
from metapl.types import MethodConfig, Network, Views
from tests.one_convolution import OneConvolution, OneConvolutionModule

OPTIMIZER = Optimizer(0.05, momentum=0.9, average_decay=0.9)
META_PSEUDO_LABELS = MPL(teacher=OPTIMIZER, student=OPTIMIZER)
SUPERVISED = Supervised(optimizer=OPTIMIZER)  # compiles in a fraction of the time: for other networks than the smallest
BATCHES = {"labeled_batch": 8, "unlabeled_batch": 16}
MODES = {
    "single": Parallel("single"),
    "data": Parallel("data"),
    "hybrid": Parallel("hybrid", 4),
    "weights": Parallel("weights"),
    "groups": Parallel("weights", 4),
}
# Three blocks compile in a quarter of the time. They are 8, 4 and 2 pixels wide; of 2, four devices have no equal part.
efficientnet.STAGES = tuple(stage._replace(blocks=1) for stage in STAGES[:3])
models.MODELS[OneConvolution] = OneConvolutionModule
NETWORKS = {
    "one_convolution": OneConvolution(),
    "wide_resnet": WideResNet(depth=10, width=1, dropout=0.3),
    "efficientnet": EfficientNet(width=0.25, dropout=0.3, remat=True),
}
METHODS = {"one_convolution": META_PSEUDO_LABELS, "wide_resnet": SUPERVISED, "efficientnet": SUPERVISED}
ALSO = {
    "one_convolution": (),
    "wide_resnet": ("data",),
    "efficientnet": ("groups",),
}  # modes: each compiles for seconds
# As the largest networks are trained: blocks and parts of a batch as loops. In doubles: with 22 layers, and batch norm
# of four examples, three steps in floats differ by 5 %, which rounding began.
STACKED, PARTS = WideResNet(depth=22, width=1, dropout=0.3, scan=True, remat=True), 2


def pictures(key: int, number: int, size: int):
    return jax.random.normal(jax.random.key(key), (number, size, size, 3))


def views(size: int) -> Views:
    labels = jnp.arange(8, dtype=jnp.int32) % 4
    return Views(pictures(0, 8, size), labels, pictures(1, 16, size), pictures(2, 16, size), pictures(3, 8, size))


def far(one, many) -> float:
    """The largest difference of a leaf, as a share of its norm."""
    found = 0.0
    for a, b in zip(*map(jax.tree.leaves, (one, many)), strict=True):
        found = max(found, float(np.linalg.norm(a - b) / (np.linalg.norm(a) + 1e-3)))
    return found


def three_steps(algorithm, layout: Layout, state, seen: Views):
    """The state after three steps, and the compiled step: once, as what it gives is where what it takes was."""

    def step(state, seen, key):
        return layout.constrain(algorithm.step(state, sharding.as_networks_see(seen), key)[0])

    state = jax.device_put(state, layout.shardings(state)) if layout.mesh else state
    seen = layout.put(seen)
    step = jax.jit(layout(step), donate_argnums=0).lower(state, seen, jax.random.key(0)).compile()
    for number in range(3):
        state = step(state, seen, jax.random.key(number))
    return jax.device_get(state), step


def of_networks() -> dict:
    told = {}
    for name, model in NETWORKS.items():
        told |= compared(name, models.build(model, 4), METHODS[name], ("single", "hybrid", *ALSO[name]))
    with jax.enable_x64(True), mock.patch.dict(layers.DTYPES, float32=jnp.dtype("float64")):
        network = in_microbatches(models.build(STACKED, 4), PARTS)
        told |= compared("stacked", network, SUPERVISED, ("single", "hybrid"), size=8)  # convolutions in loops are slow
    return told


def compared(name: str, network: Network, method: MethodConfig, modes: tuple[str, ...], size: int = 16) -> dict:
    told, one = {}, None
    algorithm, seen = algorithms.build(method, network, 10), views(size)
    start = jax.device_get(jax.jit(lambda seen: algorithm.init(jax.random.key(9), seen, None))(seen))
    for mode in modes:
        begin = time.monotonic()
        state, step = three_steps(algorithm, sharding.layout(MODES[mode], BATCHES), start, seen)
        one, memory, places = one or state, step.memory_analysis(), jax.tree.leaves(step.output_shardings)
        told[f"{name}, {mode}"] = {
            "far": far(one, state),
            "moved": far(start, state),
            "split": sum(not place.is_fully_replicated for place in places),
            "permutes": step.as_text().count("collective-permute("),
            "state_bytes": memory.output_size_in_bytes,
            "donated_bytes": memory.alias_size_in_bytes,
            "bytes": memory.temp_size_in_bytes + memory.argument_size_in_bytes,
            "seconds": round(time.monotonic() - begin, 1),
        }
    return told


def of_the_loop() -> dict:
    """All of it, from the first weights to the last report, for one seed and for two at once."""
    told, config = {}, configs.load("two_moons_mpl_uda")
    stages = (dataclasses.replace(config.stages[0], steps=6, labeled_batch=8),)
    for seeds, modes in (([4], ("single", "weights")), ([4, 5], ("single", "data", "weights", "groups"))):
        one = None
        for mode in modes:
            own = dataclasses.replace(config, stages=stages, log_every_steps=3, parallel=MODES[mode])
            datasets, places, reports = data.load(own.data, seeds, ()), [], []
            program = prepare(own, datasets)
            trained = train(
                own,
                seeds,
                datasets,
                Hooks(
                    watch=lambda *news, reports=reports: reports.append(jax.device_get(news[2])),
                    between=lambda now, places=places: places.append(
                        [str(a.sharding) for a in jax.tree.leaves(now.state)]
                    ),
                ),
                program,
            )
            one = one or (jax.device_get(trained.weights), reports)
            kernel = trained.weights.params["Dense_1"]["kernel"]
            told[f"loop, {mode}, {len(seeds)}"] = {
                "far": far(one, (jax.device_get(trained.weights), reports)),
                "compiled": program.stages[0].advance._cache_size(),
                "stay": all(place == places[0] for place in places),
                "share": kernel.addressable_shards[0].data.size / kernel.size,
            }
    return told


def of_views() -> dict:
    """How often devices that share a batch have to talk, for strong views of it, by the kind of talk."""
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    pictures = jax.ShapeDtypeStruct((32, 8, 8, 3), jnp.uint8, sharding=rows)
    told = {}
    for partners in ("any", "next"):
        strong = jax.jit(partial(randaugment.distort, RandAugment(partners=partners)), out_shardings=rows)
        program = strong.lower(pictures, jax.random.key(0)).compile().as_text()
        told[partners] = traffic.of(program, 8).counts
    return told


PIECES = {"loop": of_the_loop, "views": of_views, "networks": of_networks}

if __name__ == "__main__":
    assert jax.device_count() == 8
    print(json.dumps({piece: PIECES[piece]() for piece in sys.argv[1:]}))
