"""The methods. A new one is one file here and one row in a table; the contract tests find it there.

A method that trains one network has its row in `objectives.py`, so that MPL's teacher can use it, too.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from metapl import metrics
from metapl.algorithms import byol, learner, moco, mpl, noisy_student, pcl, pirl, pseudo_labels, reduced_mpl, simclr
from metapl.algorithms.objectives import OBJECTIVES
from metapl.types import Algorithm, MethodConfig, Network

# settings -> build(settings, network, steps)
METHODS: dict[type[MethodConfig], Callable[[Any, Network, int], Algorithm]] = {
    **{settings: partial(learner.alone, objective) for settings, objective in OBJECTIVES.items()},
    pseudo_labels.PseudoLabels: pseudo_labels.build,
    mpl.MPL: mpl.build,
    noisy_student.NoisyStudent: noisy_student.build,
    reduced_mpl.ReducedMPL: reduced_mpl.build,
    simclr.SimCLR: simclr.build,
    byol.BYOL: byol.build,
    moco.MoCo: moco.build,
    pcl.PCL: pcl.build,
    pirl.PIRL: pirl.build,
}
metrics.declare(metric for method in METHODS for metric in method.metrics)


def build(config: MethodConfig, network: Network, steps: int) -> Algorithm:
    """Make the method that the settings belong to, for a stage of so many steps."""
    return METHODS[type(config)](config, network, steps)
