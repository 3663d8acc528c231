"""Settings of two runs, with and without unlabelled pictures, for a choice of network, size, batches and steps.

Both have the same network, views, label smoothing, weight decay and learning rate. In `metapl fit`, teacher and student
of MPL start from the baseline's weights: with the few steps of a small budget, a student that starts from random
weights ends behind its baseline (docs/own_pictures.md has the measurements). So the baseline gets BASELINE times the
steps, to learn all that the labels can teach.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metapl.algorithms.balance import LogitAdjustment
from metapl.algorithms.mpl import MPL
from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import Consistency
from metapl.augment import views
from metapl.augment.views import Augmentation
from metapl.config import Checkpoint, Config, Stage
from metapl.data.sources.source import PictureConfig
from metapl.models.efficientnet import EfficientNet
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.types import ModelConfig

LEARNING_RATE, FINETUNING_RATE = 0.05, 1e-4
WEIGHT_DECAY, SMOOTHING = 5e-4, 0.1
BASELINE = 2  # times the steps of MPL

NETWORKS: dict[str, ModelConfig] = {
    "mlp": MLP(hidden=(256, 256), activation="relu", init_range=0.08),
    "wrn-10-1": WideResNet(depth=10, width=1),
    "wrn-16-2": WideResNet(depth=16, width=2),
    "wrn-28-2": WideResNet(depth=28, width=2),
    "resnet-18": ResNet(depth=18),
    "resnet-50": ResNet(depth=50),
}


@dataclass(frozen=True)
class Choice:
    """What suits the data, the machine and the budget."""

    network: str
    size: int
    steps: int
    labeled_batch: int
    unlabeled_batch: int
    finetune_steps: int
    sampling: Literal["epochs", "balanced"] = "epochs"
    prior: tuple[float, ...] = ()
    """Shares of the classes, by which logits are adjusted; empty: not adjusted."""
    learning_rate: float = LEARNING_RATE


def model(name: str, size: int) -> ModelConfig:
    """The network of this name; for pictures below 64 pixels, with a stem that does not shrink them."""
    network = NETWORKS[name]
    if isinstance(network, (ResNet, EfficientNet)) and size < 64:
        return dataclasses.replace(network, stem="cifar")
    return network


def augmentation(size: int, mirror: bool, mean: tuple[float, ...] = (), std: tuple[float, ...] = ()) -> Augmentation:
    """Views of such pictures: moved by up to an eighth, and mirrored if `mirror`; with a pretrained network's mean."""
    usual = views.usual(mirror, max(1, size // 8))
    return dataclasses.replace(usual, mean=mean, std=std) if mean else usual


def supervised(choice: Choice, base: Config, steps: int) -> Config:
    """The baseline, which learns from labelled pictures alone."""
    method = Supervised(_optimizer(choice, steps), SMOOTHING, logit_adjustment=_adjustment(choice))
    stage = Stage(method, steps, choice.labeled_batch, labeled_sampling=choice.sampling)
    return dataclasses.replace(base, stages=(stage,), **_reports(choice))


def mpl(choice: Choice, base: Config) -> Config:
    """Meta Pseudo Labels with a UDA teacher, then finetuning on the labelled pictures.

    Without `init_from`, the first stage trains the baseline, and MPL starts from it.
    """
    method = MPL(
        label_smoothing=SMOOTHING,
        consistency=Consistency(weight=1.0, temperature=0.7, threshold=0.6, ramp_steps=choice.steps // 5),
        teacher=_optimizer(choice, choice.steps),
        student=_optimizer(choice, choice.steps),
        student_start="teacher",
        logit_adjustment=_adjustment(choice),
    )
    stage = Stage(method, choice.steps, choice.labeled_batch, choice.unlabeled_batch, labeled_sampling=choice.sampling)
    first = () if base.init_from else supervised(choice, base, choice.steps).stages
    return dataclasses.replace(base, stages=(*first, stage, _finetuning(choice)), **_reports(choice))


def _finetuning(choice: Choice) -> Stage:
    optimizer = dataclasses.replace(_optimizer(choice, choice.finetune_steps), learning_rate=FINETUNING_RATE)
    method = Supervised(optimizer, SMOOTHING, logit_adjustment=_adjustment(choice))
    return Stage(method, choice.finetune_steps, choice.labeled_batch, labeled_sampling=choice.sampling)


def _optimizer(choice: Choice, steps: int) -> Optimizer:
    return Optimizer(
        learning_rate=choice.learning_rate,
        schedule="cosine",
        warmup_steps=steps // 50,
        momentum=0.9,
        nesterov=True,
        weight_decay=WEIGHT_DECAY,
        clip_norm=5.0,
    )


def _adjustment(choice: Choice) -> LogitAdjustment:
    return LogitAdjustment(1.0, choice.prior) if choice.prior else LogitAdjustment()


def _reports(choice: Choice) -> dict[str, Any]:
    return {"log_every_steps": max(1, choice.steps // 50), "checkpoint": Checkpoint(every_minutes=2.0)}


def base(data: PictureConfig, network: ModelConfig, seed: int, views: Augmentation, init_from: str = "") -> Config:
    """The settings that both runs share."""
    return Config(seed=seed, data=data, model=network, init_from=init_from, augmentation=views)


def shares(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Each class's share of the labelled pictures."""
    return tuple((counts / counts.sum()).tolist())
