"""Methods that train one network: each is an objective, to be minimised alone or as the own method of MPL's teacher."""

from collections.abc import Callable
from typing import Any

from metapl.algorithms import (
    adamatch,
    enaet,
    fixmatch,
    flexmatch,
    freematch,
    ict,
    lga,
    mean_teacher,
    mixmatch,
    remixmatch,
    simmatch,
    softmatch,
    supervised,
    temporal_ensembling,
    uda,
    vat,
)
from metapl.types import MethodConfig, Network, Objective

# settings -> objective(settings, network, steps)
OBJECTIVES: dict[type[MethodConfig], Callable[[Any, Network, int], Objective]] = {
    supervised.Supervised: supervised.objective,
    uda.UDA: uda.objective,
    fixmatch.FixMatch: fixmatch.objective,
    mean_teacher.MeanTeacher: mean_teacher.objective,
    adamatch.AdaMatch: adamatch.objective,
    flexmatch.FlexMatch: flexmatch.objective,
    freematch.FreeMatch: freematch.objective,
    ict.ICT: ict.objective,
    lga.LGA: lga.objective,
    mixmatch.MixMatch: mixmatch.objective,
    remixmatch.ReMixMatch: remixmatch.objective,
    enaet.EnAET: enaet.objective,
    softmatch.SoftMatch: softmatch.objective,
    simmatch.SimMatch: simmatch.objective,
    temporal_ensembling.TemporalEnsembling: temporal_ensembling.objective,
    vat.VAT: vat.objective,
}
