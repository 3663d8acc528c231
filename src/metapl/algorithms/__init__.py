"""The methods. A new one is one file here and one row in this table; the contract tests find it there."""

from collections.abc import Callable
from typing import Any

from metapl import metrics
from metapl.algorithms import (
    byol,
    fixmatch,
    mean_teacher,
    moco,
    mpl,
    noisy_student,
    pseudo_labels,
    reduced_mpl,
    simclr,
    supervised,
    uda,
)
from metapl.types import Algorithm, MethodConfig, Network

# settings -> build(settings, network, steps)
METHODS: dict[type[MethodConfig], Callable[[Any, Network, int], Algorithm]] = {
    supervised.Supervised: supervised.build,
    pseudo_labels.PseudoLabels: pseudo_labels.build,
    uda.UDA: uda.build,
    fixmatch.FixMatch: fixmatch.build,
    mean_teacher.MeanTeacher: mean_teacher.build,
    mpl.MPL: mpl.build,
    noisy_student.NoisyStudent: noisy_student.build,
    reduced_mpl.ReducedMPL: reduced_mpl.build,
    simclr.SimCLR: simclr.build,
    byol.BYOL: byol.build,
    moco.MoCo: moco.build,
}
metrics.declare(metric for method in METHODS for metric in method.metrics)


def build(config: MethodConfig, network: Network, steps: int) -> Algorithm:
    """Make the method that the settings belong to, for a stage of so many steps."""
    return METHODS[type(config)](config, network, steps)
