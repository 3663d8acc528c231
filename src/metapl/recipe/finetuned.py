"""Settings of runs that finetune a pretrained network, from a linear head on its features.

    θ_0 = the encoder and the head: the first step starts with what they predict (LP-FT, Kumar et al., 2022)
    θ'  = θ − η ∇_θ CE(y, f(x; θ))              by AdamW; x: weak views, or strong ones if some labels are a model's

Labels that a model gave to unlabelled pictures are learnt from strong views, as in Noisy Student (Xie et al., 2020).

With Meta Pseudo Labels (`mpl_settings`), teacher and student both start from such a network. The student sees strong
views: on weak ones it would learn what it predicts already. The teacher is UDA's, with the exact feedback of
algorithms/feedback.py at a weight that momentum does not throw (algorithms/feedback_scale.py). The student descends by
SGD: the derivative of AdamW's step, which the feedback needs, is not finite where a gradient is 0.

The stem and the first stages stay. The rate of layer ℓ of L is η DECAY^(L − ℓ). Batch norm uses its running statistics,
and keeps them: those of small batches of few pictures would be worse. docs/features.md has what was tried.
"""

import dataclasses
from typing import Literal

from metapl.algorithms.feedback import Feedback
from metapl.algorithms.mpl import MPL
from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import Consistency
from metapl.config import Checkpoint, Config, Stage
from metapl.models.heads import Heads
from metapl.optim import Optimizer

RATE, DECAY, FROZEN = 5e-4, 0.8, 3
View = Literal["weak", "strong"]
BATCH, SMALL_BATCH = 32, 16  # pictures; the small one if there is little time
MPL_LABELED, MPL_UNLABELED = 8, 16
STUDENT_RATE = 3e-3


def settings(base: Config, steps: int, view: View = "weak", batch: int = BATCH) -> Config:
    """The settings of a run; `base` has the pictures, their views, a network of heads and the weights to start from."""
    return _run(base, Stage(Supervised(_optimizer(steps), view=view), steps, batch))


def mpl_settings(base: Config, steps: int) -> Config:
    """The settings of a run with Meta Pseudo Labels; `base` as above."""
    method = MPL(
        feedback=Feedback("soft", scale="horizon", weight=0.25),
        labels="soft",
        student_view="strong",
        consistency=Consistency(weight=1.0, temperature=0.7, threshold=0.6),
        teacher=_optimizer(steps),
        student=dataclasses.replace(_optimizer(steps), rule="sgd", learning_rate=STUDENT_RATE),
        student_start="teacher",
    )
    return _run(base, Stage(method, steps, MPL_LABELED, MPL_UNLABELED))


def _run(base: Config, stage: Stage) -> Config:
    assert isinstance(base.model, Heads)
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, frozen_norms=True),
        stages=(stage,),
        log_every_steps=max(1, stage.steps // 50),
        checkpoint=Checkpoint(every_minutes=2.0),
    )


def _optimizer(steps: int) -> Optimizer:
    return Optimizer(
        rule="adamw",
        learning_rate=RATE,
        schedule="cosine",
        warmup_steps=steps // 20,
        momentum=0.9,
        clip_norm=5.0,
        layer_decay=DECAY,
        frozen_layers=FROZEN,
    )
