"""The machine's peak speed: the fastest square matrix product in float32."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metapl.bench.timing import measure
from metapl.system import runtime

SIZES = (1024, 2048)  # 512 and 4096 were never the fastest on the machines that we have measured
REPEATS = 5


def matmul_gflops() -> dict[str, float]:
    """The best GFLOP/s of XLA's product and, on a CPU, of numpy's BLAS."""
    return {library: max(rates) for library, rates in _rates().items()}


def _rates() -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    for size in SIZES:
        for library, work in _products(size):
            best_ms = measure(work, REPEATS).best
            rates.setdefault(library, []).append(2 * size**3 / best_ms / 1e6)
    return rates


def _products(size: int) -> Iterator[tuple[str, Callable[[int], None]]]:
    matrix = np.random.default_rng(0).standard_normal((size, size), np.float32)
    yield "xla", _repeat(jax.jit(jnp.dot), jnp.asarray(matrix))
    if runtime.is_cpu():
        yield "numpy", _repeat(np.dot, matrix)


def _repeat(dot: Callable[[Any, Any], Any], matrix: Any) -> Callable[[int], None]:
    def work(times: int) -> None:
        for _ in range(times):
            jax.block_until_ready(dot(matrix, matrix))

    return work
