"""Interpolation Consistency Training (Verma et al., 2019): the prediction for a mixture is the mixture of predictions.

    u_m  = ν u_j + (1 − ν) u_k,   ν ~ Beta(β, β)                       k: a shuffled order of the batch
    J    = ‖ f(u_m; θ) − (ν f(u_j; θ') + (1 − ν) f(u_k; θ')) ‖²       probabilities; θ' held fixed; a mean over classes
    θ_t  = θ_{t−1} − γ ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t J ]             x_l, y_l mixed with ν ~ Beta(β_l, β_l), too
    θ'_t = α_t θ'_{t−1} + (1 − α_t) θ_t                                α_t = min(1 − 1 / (t + 1), α)
    λ_t  = λ exp(−5 (1 − min(1, t / ramp_steps))²)

| symbol       | name                         |
|--------------|------------------------------|
| θ, θ'        | student.params, student.memory |
| λ, α         | config.weight, config.decay  |
| β, β_l       | config.mixup, config.labeled_mixup |
| t            | student.updates              |
| x_l, y_l     | views.labeled, views.labels  |
| u_j          | views.weak                   |

The Mixup of labelled examples is in the authors' code, with β_l = β. Their code mixes the average's logits; this file
mixes its probabilities, as the paper's equation does.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Lt

from metapl import optim
from metapl.algorithms.averages import follow_weights
from metapl.algorithms.labeled import labeled_batch
from metapl.algorithms.losses import accuracy, cross_entropy, one_hot_best, risen
from metapl.algorithms.passes import together
from metapl.augment.mixup import draw
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Labeler,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
    Weights,
)


@dataclass(frozen=True)
class ICT(MethodConfig):
    """Train on labels and on predictions between those of the network's moving average."""

    name: ClassVar[str] = "ict"
    title: ClassVar[str] = "ICT"

    weight: Annotated[float, Ge(0)] = 100.0
    """λ: factor of the agreement term after the rise."""
    mixup: Annotated[float, Gt(0)] = 1.0
    """β of Beta(β, β); the authors have 1 on CIFAR-10 and 0.1 on SVHN."""
    labeled_mixup: Annotated[float, Ge(0)] = 1.0
    """β_l of Beta(β_l, β_l) on labelled examples; 0 mixes none. The authors have that of `mixup`."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises like exp(−5 (1 − t)²); 0: no rise (the authors: a quarter of the steps)."""
    decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """α: share of the average's weights that each step keeps, after the first 1 / (1 − α) steps."""
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes."""

    def check(self) -> None:
        """Refuse a second average."""
        if self.optimizer.average_decay:
            raise ValueError("optimizer.average_decay must be 0: the teacher is the average; set decay instead")


def objective(config: ICT, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_t J; the memory is θ'."""
    del steps

    def terms(params: PyTree, student: Learner, views: Views, key: Array) -> LossTerms:
        student_key, teacher_key, mix_key = jax.random.split(key, 3)
        teacher: Weights = student.memory
        mixture = draw(mix_key, len(views.weak), config.mixup, views.weak.dtype)

        # ν f(u_j; θ') + (1 − ν) f(u_k; θ')
        teacher_logits, _ = network.apply(teacher.params, teacher.stats, views.weak, train=True, key=teacher_key)
        targets = mixture.mix(jax.nn.softmax(teacher_logits))

        # CE(y_l, f(x_l; θ)) + λ_t J
        x_l = labeled_batch(views, "weak", config.labeled_mixup, key)
        shown = [x_l.inputs, mixture.mix(views.weak)]
        (labeled, mixed), stats = together(network, params, student.stats, shown, student_key)
        y_l = x_l.targets(labeled)
        supervised = cross_entropy(y_l, labeled, config.label_smoothing)
        disagreement = jnp.mean((jax.nn.softmax(mixed) - targets) ** 2)
        metrics = {
            "loss": supervised,
            "consistency_loss": disagreement,
            "labeled_accuracy": accuracy(y_l, labeled),
            PSEUDO_LABELS: one_hot_best(teacher_logits),
        }
        factor = risen(config.weight, student.updates, config.ramp_steps, disagreement.dtype)
        return LossTerms(supervised, stats, metrics, factor * disagreement, memory=teacher)

    labeler = Labeler(lambda student: student.memory, teaches=True)
    follow = follow_weights(config.decay)
    return Objective(terms, lambda student, *_: student.current, follow, lambda student: student.memory, labeler)
