"""One tiny training step of MPL: `python -m metapl.cli.smoke` prints its result as JSON.

`metapl doctor` runs it in a process of its own: XLA kills its process if it cannot read its flags, and a broken driver
may crash.
"""

import json
import os
import sys
import time
from typing import Any

from metapl.system import runtime


def smoke() -> dict[str, Any]:
    """Compile one step, run it twice from the same state, and compare the results bit for bit."""
    not_kept = runtime.keep_memory()
    runtime.start()
    import jax
    import jax.numpy as jnp
    import numpy as np

    from metapl import algorithms, models
    from metapl.algorithms.mpl import MPL
    from metapl.models import onednn
    from metapl.models.mlp import MLP
    from metapl.types import Views

    start = time.monotonic()
    points = jax.random.normal(jax.random.key(0), (6, 2))
    views = Views(points[:2], jnp.array([0, 1]), points, points + 0.1)
    algorithm = algorithms.build(MPL(), models.build(MLP(hidden=(4,)), 2), 1)
    state = jax.jit(lambda key: algorithm.init(key, views, None))(jax.random.key(1))
    step = jax.jit(algorithm.step)
    results = [jax.tree.map(np.asarray, step(state, views, jax.random.key(2))) for _ in range(2)]
    first, second = (jax.tree.leaves(result) for result in results)
    return {
        "devices": [f"{device.platform} {device.device_kind}" for device in jax.devices()],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "left_out_xla_flags": runtime.left_out_xla_flags(),
        "memory_not_kept": not_kept,
        "onednn": onednn.available(),
        "onednn_hint": onednn.hint(),
        "finite": all(bool(np.isfinite(leaf).all()) for leaf in first),
        "same_twice": all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)),
        "seconds": round(time.monotonic() - start, 2),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(smoke()) + "\n")
