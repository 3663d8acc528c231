"""The JAX side of steps.py: the package's own training step, as `metapl bench` measures it.

python benchmarks/jax_steps.py SETTINGS
"""

import json
import sys
from typing import Any

from metapl.system import runtime

runtime.keep_memory()  # as the command line does, before other libraries start threads

import jax  # noqa: E402
from turns import serve  # noqa: E402

from metapl.algorithms.mpl import MPL  # noqa: E402
from metapl.algorithms.supervised import Supervised  # noqa: E402
from metapl.algorithms.uda import Consistency  # noqa: E402
from metapl.bench import flops, program  # noqa: E402
from metapl.bench.settings import NETWORKS, Bench  # noqa: E402
from metapl.models import onednn  # noqa: E402
from metapl.optim import Optimizer  # noqa: E402
from metapl.types import MethodConfig  # noqa: E402


def method(settings: dict[str, Any]) -> MethodConfig:
    """The method, with the same optimizer as the PyTorch side."""
    nesterov = Optimizer(settings["rate"], momentum=settings["momentum"], nesterov=True, weight_decay=settings["decay"])
    if settings["method"] == "supervised":
        return Supervised(nesterov)
    uda = Consistency(settings["uda_weight"], settings["uda_temperature"])
    return MPL(consistency=uda, teacher=nesterov, student=nesterov)


def main(settings: dict[str, Any]) -> None:
    """Compile, then take turns."""
    runtime.start()
    bench = Bench(
        NETWORKS[settings["network"]](**settings["fields"]),
        method(settings),
        (settings["batch"],),
        settings["unlabeled_batch"],
        settings["size"],
        classes=settings["classes"],
    )
    case = program.build(bench, settings["batch"])
    state = case.init(case.key, case.views)
    about = {
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(case.predictor(state).params)),
        "gflop": flops.count(case.step, state, case.views, case.key) / 1e9,
        "forward_gflop": flops.count(case.infer, case.predictor(state), case.views.labeled) / 1e9,
        "machine": runtime.describe(),
        "onednn": onednn.available(),
    }
    step = case.step.lower(state, case.views, case.key).compile()

    def work(times: int) -> None:
        nonlocal state
        for _ in range(times):
            state, metrics = step(state, case.views, case.key)
        jax.block_until_ready((state, metrics))

    serve(about, work)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
