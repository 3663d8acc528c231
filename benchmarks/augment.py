"""What strong views cost beside a training step: 128 pictures of 32×32×3, WRN-28-2, on this machine.

    python benchmarks/augment.py [REPEATS]

Prints the median times of both, interleaved, and the median of their ratios; a ratio counts the weak view, RandAugment
(N = 2, all 15 operations), Cutout and normalisation of one batch against one step (forward, backward, Nesterov).

Measured on two CPU cores that others used, too: 38 ms and 4.0 s (best 17 ms and 1.9 s), ratio 0.9 %.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

# The convolutions' gradients take three times as long without it, which would flatter the views.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=dot,eltwise,reduce")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from metapl.augment import views
from metapl.augment.randaugment import RandAugment, distort
from metapl.types import Array

BATCH = 128


class Block(nn.Module):
    """Pre-activation residual block: two 3×3 convolutions."""

    width: int
    stride: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        same = x.shape[-1] == self.width
        short = x if same else nn.Conv(self.width, (1, 1), self.stride, use_bias=False)(y)
        y = nn.Conv(self.width, (3, 3), self.stride, use_bias=False)(y)
        y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
        return short + nn.Conv(self.width, (3, 3), use_bias=False)(y)


class WideResNet(nn.Module):
    """WRN-28-2: a yardstick for this file alone."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.Conv(16, (3, 3), use_bias=False)(x)
        for group, width in enumerate((32, 64, 128)):
            for block in range(4):
                x = Block(width, 2 if group and not block else 1)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        return nn.Dense(10)(x.mean((1, 2)))


def training_step() -> tuple[Callable[[Any, Array, Array], Any], Any]:
    """Make one step of supervised training, and the state it starts from."""
    model, optimizer = WideResNet(), optax.sgd(0.03, momentum=0.9, nesterov=True)
    variables = model.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    params, stats = variables["params"], variables["batch_stats"]

    def loss(params: Any, stats: Any, images: Array, labels: Array) -> tuple[Array, Any]:
        logits, moved = model.apply({"params": params, "batch_stats": stats}, images, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), moved["batch_stats"]

    @jax.jit
    def step(state: Any, images: Array, labels: Array) -> Any:
        params, stats, opt_state = state
        grads, stats = jax.grad(loss, has_aux=True)(params, stats, images, labels)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), stats, opt_state

    return step, (params, stats, optimizer.init(params))


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Time one call to its end."""
    start = time.perf_counter()
    result = jax.block_until_ready(function())
    return time.perf_counter() - start, result


def main(repeats: int) -> None:
    """Interleave both, so that a busy moment of the machine hits both alike."""
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
    view_times, step_times = np.array(times).T
    print(f"strong views of {BATCH}×32×32×3: {1e3 * np.median(view_times):.1f} ms (best {1e3 * view_times.min():.1f})")
    print(f"WRN-28-2 training step:       {1e3 * np.median(step_times):.0f} ms (best {1e3 * step_times.min():.0f})")
    print(f"ratio: {np.median(view_times / step_times):.2%}, median of {repeats}; compiled {len(traces)} time(s)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
