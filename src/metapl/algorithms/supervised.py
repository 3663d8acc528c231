"""Supervised learning; after another stage, finetuning of that stage's weights.

    θ' = θ − η ∇_θ CE(y_l, f(x_l; θ))

Label smoothing spreads α of y_l over all classes. Mixup takes λ x_i + (1 − λ) x_j for x_l and the same of the labels
for y_l (Zhang et al., 2018), each i with its own λ ~ Beta(mixup, mixup) and partner j. CutMix pastes a box of x_j into
x_i, and mixes the labels by area (augment/cutmix.py). The strong view is the paper's "RandAugment" row, or with
`augmentation.strong.name = "autoaugment"` its "AutoAugment" row.

| symbol | name           |
|--------|----------------|
| f(·;θ) | network.apply  |
| x_l    | views.labeled or views.labeled_strong, mixed: labeled.inputs |
| y_l    | views.labels, mixed: labeled.targets |
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from metapl import optim
from metapl.algorithms.balance import LogitAdjustment, adjusted
from metapl.algorithms.labeled import CutMix, labeled_batch
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
    cutmix: Annotated[float, Ge(0)] = 0.0
    """α of CutMix's Beta(α, α); 0 cuts nothing. The authors: 1."""
    cutmix_chance: Annotated[float, Gt(0), Le(1)] = 1.0
    """Chance that a picture is cut. The authors: 1 on ImageNet, 0.5 on CIFAR."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()

    @property
    def needs_pictures(self) -> bool:
        """CutMix cuts boxes out of pictures."""
        return bool(self.cutmix)

    def check(self) -> None:
        """Refuse two ways of mixing at once."""
        if self.mixup and self.cutmix:
            raise ValueError(
                f"mixup = {self.mixup} and cutmix = {self.cutmix} both mix the batch; set one of them to 0"
            )


def objective(config: Supervised, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ))."""
    del steps

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        labeled = labeled_batch(views, config.view, config.mixup, key, CutMix(config.cutmix, config.cutmix_chance))
        logits, stats = network.apply(params, learner.stats, labeled.inputs, train=True, key=key)
        y_l = labeled.targets(logits)
        supervised = cross_entropy(y_l, adjusted(config.logit_adjustment, logits), config.label_smoothing)
        return LossTerms(supervised, stats, {"loss": supervised, "labeled_accuracy": accuracy(y_l, logits)})

    return Objective(terms, labeler=None)
