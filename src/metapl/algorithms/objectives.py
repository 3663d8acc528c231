"""Methods that train one network: each is an objective, to be minimised alone or as the own method of MPL's teacher."""

from collections.abc import Callable
from typing import Any

from metapl.algorithms import fixmatch, mean_teacher, supervised, uda
from metapl.types import MethodConfig, Network, Objective

# settings -> objective(settings, network, steps)
OBJECTIVES: dict[type[MethodConfig], Callable[[Any, Network, int], Objective]] = {
    supervised.Supervised: supervised.objective,
    uda.UDA: uda.objective,
    fixmatch.FixMatch: fixmatch.objective,
    mean_teacher.MeanTeacher: mean_teacher.objective,
}
