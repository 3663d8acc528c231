"""Settings of runs that finetune a pretrained network on labelled pictures, from a linear head on its features.

    θ_0 = the encoder and the head: the first step starts with what they predict (LP-FT, Kumar et al., 2022)
    θ'  = θ − η ∇_θ CE(y, f(x; θ))              by AdamW; x: weak views, or strong ones if some labels are a model's

Labels that a model gave to unlabelled pictures are learnt from strong views, as in Noisy Student (Xie et al., 2020).

The stem and the first stages stay. The rate of layer ℓ of L is η DECAY^(L − ℓ). Batch norm uses its running statistics,
and keeps them: those of small batches of few pictures would be worse. docs/features.md has what was tried.
"""

import dataclasses
from typing import Literal

from metapl.algorithms.supervised import Supervised
from metapl.config import Checkpoint, Config, Stage
from metapl.models.heads import Heads
from metapl.optim import Optimizer

RATE, DECAY, FROZEN = 5e-4, 0.8, 3
View = Literal["weak", "strong"]
BATCH, SMALL_BATCH = 32, 16  # pictures; the small one if there is little time


def settings(base: Config, steps: int, view: View = "weak", batch: int = BATCH) -> Config:
    """The settings of a run; `base` has the pictures, their views, a network of heads and the weights to start from."""
    assert isinstance(base.model, Heads)
    optimizer = Optimizer(
        rule="adamw",
        learning_rate=RATE,
        schedule="cosine",
        warmup_steps=steps // 20,
        momentum=0.9,
        clip_norm=5.0,
        layer_decay=DECAY,
        frozen_layers=FROZEN,
    )
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, frozen_norms=True),
        stages=(Stage(Supervised(optimizer, view=view), steps, batch),),
        log_every_steps=max(1, steps // 50),
        checkpoint=Checkpoint(every_minutes=2.0),
    )
