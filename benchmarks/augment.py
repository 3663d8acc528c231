"""The cost of strong views compared with a training step: 128 pictures of 32×32×3, WRN-28-2, on this machine.

    python benchmarks/augment.py [REPEATS]

Prints the median times of both, measured in turn, in wall-clock and in processor time, and the median of their ratios.
A ratio is the time for the weak view, RandAugment (N = 2, all 15 operations), Cutout and normalisation of one batch,
divided by the time of one step (forward, backward, Nesterov).

Measured on two CPU cores shared with other programs: 38 ms and 4.0 s (best 17 ms and 1.9 s), ratio 0.9 %. On one busier
core: 90 ms and 3.1 s of processor time, ratio 2.8 %; the views alone, repeated, 18 ms (docs/data.md).
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metapl import algorithms, models
from metapl.algorithms.supervised import Supervised
from metapl.augment import views
from metapl.augment.randaugment import RandAugment
from metapl.augment.strong import distort
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.system import runtime
from metapl.types import Array, Views

BATCH = 128


def training_step() -> tuple[Callable[[Any, Array, Array], Any], Any]:
    """Make one step of supervised training, and the state it starts from."""
    nesterov = Optimizer(learning_rate=0.03, momentum=0.9, nesterov=True)
    algorithm = algorithms.build(Supervised(nesterov), models.build(WideResNet(), classes=10), steps=1000)

    def views_of(images: Array, labels: Array) -> Views:
        return Views(images, labels, weak=images[:1], strong=images[:1])

    @jax.jit
    def step(state: Any, images: Array, labels: Array) -> Any:
        return algorithm.step(state, views_of(images, labels), jax.random.key(0))[0]

    first = views_of(jnp.zeros((BATCH, 32, 32, 3)), jnp.zeros(BATCH, jnp.int32))
    return step, algorithm.init(jax.random.key(0), first, None)


def seconds(function: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Time one call: wall-clock time, and processor time, which other programs disturb less."""
    start, used = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(function())
    return (time.perf_counter() - start, time.process_time() - used), result


def main(repeats: int) -> None:
    """Measure both in turn, so that a busy moment of the machine affects both."""
    runtime.start()  # without it, gradients of convolutions take three times as long, and the ratio would be too small
    config = views.Augmentation(strong=RandAugment(cutout=16))
    pictures = jax.random.bits(jax.random.key(0), (BATCH, 32, 32, 3), jnp.uint8)
    labels = jnp.arange(BATCH) % 10

    traces = []

    @jax.jit
    def strong_views(pictures: Array, key: Array) -> Array:
        traces.append(key)  # runs when JAX compiles, not when it computes
        weak_key, strong_key = jax.random.split(key)
        weak = views.weak(config, pictures, weak_key)
        return views.normalize(config, distort(config.strong, weak, strong_key))

    step, state = training_step()
    images = strong_views(pictures, jax.random.key(0))
    state = jax.block_until_ready(step(state, images, labels))
    times = []
    for repeat in range(repeats):
        key = jax.random.key(repeat)
        view_time, images = seconds(lambda key=key: strong_views(pictures, key))  # type: ignore[misc]
        step_time, state = seconds(lambda images=images, state=state: step(state, images, labels))  # type: ignore[misc]
        times.append((view_time, step_time))
    for kind, (view_times, step_times) in zip(("clock", "processors"), np.array(times).T, strict=True):
        print(f"{kind}: strong views of {BATCH}×32×32×3 {1e3 * np.median(view_times):.1f} ms", end="")
        print(
            f" (best {1e3 * view_times.min():.1f}), WRN-28-2 training step {1e3 * np.median(step_times):.0f} ms", end=""
        )
        print(f" (best {1e3 * step_times.min():.0f}), ratio {np.median(view_times / step_times):.2%}")
    print(f"medians of {repeats}; compiled {len(traces)} time(s)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
