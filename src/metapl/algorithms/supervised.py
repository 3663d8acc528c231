"""Supervised learning; after another stage, finetuning of that stage's weights.

    θ' = θ − η ∇_θ CE(y_l, f(x_l; θ))

Label smoothing spreads α of y_l over all classes. Mixup takes λ x_i + (1 − λ) x_j for x_l and the same of the labels
for y_l (Zhang et al., 2018), each i with its own λ ~ Beta(mixup, mixup) and partner j. The strong view is the paper's
"RandAugment" row.

| symbol | name           |
|--------|----------------|
| f(·;θ) | network.apply  |
| x_l    | views.labeled or views.labeled_strong, mixed: labeled.inputs |
| y_l    | views.labels, mixed: labeled.targets |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms.balance import LogitAdjustment, adjusted
from metapl.algorithms.labeled import labeled_batch
from metapl.algorithms.losses import accuracy, cross_entropy
from metapl.types import (
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
)


@dataclass(frozen=True)
class Supervised(MethodConfig):
    """Train on the labelled examples alone."""

    name: ClassVar[str] = "supervised"
    title: ClassVar[str] = "Supervised"
    uses_unlabeled: ClassVar[bool] = False

    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each label that is spread evenly over all classes."""
    view: Literal["weak", "strong"] = "weak"
    """Which view of the labelled examples to learn from; strong is the paper's RandAugment."""
    mixup: Annotated[float, Ge(0)] = 0.0
    """α of Mixup's Beta(α, α); 0 mixes nothing."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()


def objective(config: Supervised, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ))."""
    del steps

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        labeled = labeled_batch(views, config.view, config.mixup, key)
        logits, stats = network.apply(params, learner.stats, labeled.inputs, train=True, key=key)
        y_l = labeled.targets(logits)
        supervised = cross_entropy(y_l, adjusted(config.logit_adjustment, logits), config.label_smoothing)
        return LossTerms(supervised, stats, {"loss": supervised, "labeled_accuracy": accuracy(y_l, logits)})

    return Objective(terms, labeler=None)
