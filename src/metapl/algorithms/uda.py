"""UDA (Xie et al., 2020): the network should predict the same for an example and for a distorted copy of it.

    q  = StopGradient(f(x_u; θ)^(1/τ)), normalised
    θ' = θ − η ∇_θ [ CE(y_l, f(x_l; θ)) + λ_t CE(q, f(RandAugment(x_u); θ)) ]

Three options, all off by default. The first term leaves out labelled examples whose f_y(x_l) exceeds a cap that rises
from 1/C to 1 over the stage (Appendix C.4 masks confident ones; UDA's own schedules say how). The second leaves out
examples with max q < threshold, and λ_t = λ min(1, t / ramp_steps), both as in the released code. Means are over whole
batches: an example that is left out counts as 0.

Two more settings give other consistency terms: `labels = "hard"` takes argmax q for q, as FixMatch does, and
`view = "weak"` takes f(x_u; θ) for f(RandAugment(x_u); θ): Pseudo Labels that a network gives itself.

| symbol          | name               |
|-----------------|--------------------|
| f(·;θ)          | network.apply      |
| λ, τ, threshold, ramp_steps | config.consistency |
| cap             | config.labeled_cap |
| t               | learner.updates    |
| x_l, y_l        | views.labeled, views.labels; mixed: labeled.inputs, labeled.targets |
| x_u             | views.weak         |
| RandAugment(x_u)| views.strong: whatever the views make of it; Gaussian jitter for points |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from metapl import optim
from metapl.algorithms.balance import LogitAdjustment, adjusted
from metapl.algorithms.labeled import labeled_batch
from metapl.algorithms.losses import accuracy, confident, cross_entropies, one_hot_best, sharpen, smooth
from metapl.types import (
    PSEUDO_LABELS,
    Array,
    Learner,
    LossTerms,
    MethodConfig,
    Network,
    Objective,
    PyTree,
    Views,
)

Cap = Literal["none", "linear", "log", "exp"]
Passes = Literal["one", "apart"]


@dataclass(frozen=True)
class Consistency:
    """The term on unlabelled examples: a network's prediction for one view is the target of another."""

    weight: Annotated[float, Ge(0)] = 1.0
    """Factor of the term (the paper's UDA factor)."""
    temperature: Annotated[float, Ge(1e-6)] = 1.0
    """The target is softmax(logits / temperature): below 1 it is sharper than the network's prediction. Near 0 the
    quotient overflows: use labels = "hard" instead."""
    labels: Literal["soft", "hard"] = "soft"
    """Learn from the whole target, or from its best class alone."""
    view: Literal["strong", "weak"] = "strong"
    """The view that learns from the target, which is the prediction for the weak one."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Leave out examples whose target's best class has a lower probability than this (released code: 0.6)."""
    ramp_steps: Annotated[int, Ge(0)] = 0
    """Steps over which the factor rises linearly from 0 to `weight` (released code: 5,000)."""

    def check(self) -> None:
        """Refuse a term whose gradient is zero: the released code's error, in another place."""
        if self.view == "weak" and self.labels == "soft" and self.temperature == 1:
            raise ValueError(
                "view 'weak' with soft labels and temperature 1 has a gradient of zero: the prediction is its own "
                "target; set labels to 'hard'"
            )


@dataclass(frozen=True)
class UDA(MethodConfig):
    """Train on labels and on consistency between views."""

    name: ClassVar[str] = "uda"
    title: ClassVar[str] = "UDA"
    moved: ClassVar[dict[str, str]] = {"consistency.labeled_cap": "labeled_cap", "consistency.passes": "passes"}

    consistency: Consistency = Consistency()
    optimizer: optim.Optimizer = optim.Optimizer()
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of each true label that is spread evenly over all classes; the consistency term has its own targets."""
    labeled_cap: Cap = "none"
    """Leave out labelled examples whose own class is more probable than a cap; how it rises from 1/C to 1."""
    passes: Passes = "one"
    """Show the network all views at once, with common batch statistics, or each in a pass of its own."""
    labeled_view: Literal["weak", "strong"] = "weak"
    """Which view of the labelled examples to learn from."""
    mixup: Annotated[float, Ge(0)] = 0.0
    """α of Mixup's Beta(α, α) on labelled examples; 0 mixes nothing."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()

    def check(self) -> None:
        """Check fields against each other."""
        if self.labeled_cap != "none" and self.mixup:
            raise ValueError("labeled_cap needs a mixup of 0: a mixed example has no class of its own")


def objective(config: UDA, network: Network, steps: int) -> Objective:
    """CE(y_l, f(x_l; θ)) + λ_t CE(q, f(RandAugment(x_u); θ))."""
    term = config.consistency

    def terms(params: PyTree, learner: Learner, views: Views, key: Array) -> LossTerms:
        x_l = labeled_batch(views, config.labeled_view, config.mixup, key)
        shown = [x_l.inputs, views.weak, *([views.strong] if term.view == "strong" else [])]
        (labeled, weak, *strong), stats = forward(config.passes, network, params, learner.stats, shown, key)

        # CE(y_l, f(x_l; θ)), over examples with f_y(x_l; θ) ≤ cap
        y_l, logits = x_l.targets(labeled), adjusted(config.logit_adjustment, labeled)
        labeled_costs = cross_entropies(smooth(y_l, logits, config.label_smoothing), logits)
        labeled_mask = below_cap(config.labeled_cap, y_l, logits, learner.updates / steps)
        supervised = jnp.mean(labeled_costs if config.labeled_cap == "none" else labeled_mask * labeled_costs)

        # CE(q, f(RandAugment(x_u); θ)), over examples with max q ≥ threshold
        q = sharpen(weak, term.temperature)
        mask = confident(q, term.threshold)
        targets = jnp.argmax(q, axis=-1) if term.labels == "hard" else q
        costs = cross_entropies(targets, strong[0] if strong else weak)
        unsupervised = jnp.mean(mask * costs if term.threshold else costs)

        metrics = {
            "loss": supervised,
            "consistency_loss": unsupervised,
            "labeled_accuracy": accuracy(y_l, labeled),
            "labeled_mask_rate": jnp.mean(labeled_mask),
            "mask_rate": jnp.mean(mask),
            PSEUDO_LABELS: one_hot_best(weak),
        }
        weighted = ramped(term, unsupervised, learner.updates)
        return LossTerms(supervised, stats, metrics, weighted, weak, strong[0] if strong else None)

    return Objective(terms)


def forward(
    passes: Passes, network: Network, params: PyTree, stats: PyTree, shown: Sequence[Array], key: Array
) -> tuple[list[Array], PyTree]:
    """Return the logits of each of the arrays, in training mode, and the statistics after all passes.

    In one pass, batch statistics are those of all arrays together. Apart, each pass normalises with its own statistics,
    and moves the running ones in its turn.
    """
    if passes == "one":
        logits, stats = network.apply(params, stats, jnp.concatenate(shown), train=True, key=key)
        return jnp.split(logits, [len(shown[0]), len(shown[0]) + len(shown[1])])[: len(shown)], stats
    logits_of = []
    for inputs, pass_key in zip(shown, jax.random.split(key, 3), strict=False):
        logits, stats = network.apply(params, stats, inputs, train=True, key=pass_key)
        logits_of.append(logits)
    return logits_of, stats


def ramped(config: Consistency, loss: Array, t: Array | int) -> Array:
    """λ_t · loss, with λ_t = λ min(1, t / ramp_steps), as in the released code."""
    if not config.ramp_steps:
        return config.weight * loss
    return config.weight * jnp.minimum(1.0, jnp.asarray(t, loss.dtype) / config.ramp_steps) * loss


def below_cap(cap: Cap, labels: Array, logits: Array, progress: Array | float) -> Array:
    """1 for each example with p_y ≤ 1/C + (1 − 1/C) rise(progress), else 0: [B].

    The paper masks confident labelled examples (Appendix C.4) and does not say how. UDA's training signal annealing has
    these three rises (Xie et al., 2020, Section 3.2); the released code computes the linear one and then does not use
    it.
    """
    if cap == "none":
        return jnp.ones(len(labels), logits.dtype)
    even = 1 / logits.shape[-1]
    most = even + (1 - even) * RISES[cap](jnp.asarray(progress, logits.dtype))
    own = jnp.take_along_axis(jax.nn.softmax(logits), labels[:, None], axis=-1)[:, 0]
    return jax.lax.stop_gradient((own <= most).astype(logits.dtype))


RISES: dict[str, Callable[[Array], Array]] = {  # from 0 to 1, up to e⁻⁵
    "linear": lambda progress: progress,
    "log": lambda progress: 1 - jnp.exp(-5 * progress),
    "exp": lambda progress: jnp.exp(5 * (progress - 1)),
}
