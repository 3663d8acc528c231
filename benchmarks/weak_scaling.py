"""Weak scaling, from compiled programs: MPL with WRN-28-2 on 1 to 2,048 TPUv3 cores, the same batch on each core.

    pip install 'metapl[tpu]'; python benchmarks/weak_scaling.py [cores …]

Nothing is trained: each row is a plan (`metapl plan`), as a line of JSON: a core's memory, and the bytes that it sends.
"""

import dataclasses
import json
import sys

from metapl import config as configs
from metapl.augment.randaugment import RandAugment
from metapl.models.wide_resnet import WideResNet
from metapl.plan import estimate, example_shape
from metapl.plan.chips import CHIPS
from metapl.plan.target import Machine
from metapl.system import runtime
from metapl.system.sharding import Parallel

TOPOLOGIES = {1: "v3:2x2", 8: "v3:2x2", 32: "v3:4x4", 128: "v3:8x8", 512: "v3:16x16", 2048: "v3:32x32"}
LABELED, UNLABELED = 16, 112  # on each core


def main(cores: list[int]) -> None:
    """Print a line for each number of cores."""
    runtime.start(keep_programs=False)
    preset = configs.load("cifar10_4k_mpl")
    for number in cores:
        stage = dataclasses.replace(
            preset.stages[0], labeled_batch=LABELED * number, unlabeled_batch=UNLABELED * number
        )
        config = dataclasses.replace(
            preset,
            augmentation=dataclasses.replace(preset.augmentation, strong=RandAugment(partners="next")),
            model=WideResNet(precision="bfloat16", scan=True),
            stages=(stage,),
            parallel=Parallel("data" if number > 1 else "single"),
        )
        machine = Machine(runtime.tpu_devices(TOPOLOGIES[number])[:number], CHIPS["v3"])
        report = estimate.plan(config, 0, example_shape.of(config), machine, lambda _: None)
        sent = sum(kind["bytes_sent"] for kind in report.get("collectives", {}).values())
        row = {"cores": number, "memory": report["memory"]["total"], "sent": sent, "compile": report["compile"]}
        print(json.dumps(row | {"collectives": report.get("collectives")}), flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(TOPOLOGIES))
