"""The registry of metrics: which numbers runs report, what each means, and how screen, report, guards and docs show it.

A number that several methods report stands here. One that a single method reports stands in that method's file, as
`metrics` of its settings; `algorithms/__init__.py` adds those of all methods.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from metapl.types import Metric

HISTOGRAM = "pseudo_label_histogram"
LARGEST = "largest_class_share"  # reports compute it from the histogram
ACCURACY, EVALUATION, FEEDBACK, LOSSES, CONTRAST, PSEUDO_LABELS, MASKS, NORMS = (
    "Accuracy on labelled training batches",
    "Evaluation",
    "Feedback",
    "Losses",
    "Projections of unlabelled examples",
    "Pseudo labels",
    "Mask rate: share of examples that count",
    "Gradient norms",
)
ON_LABELED = "on the labelled training batch, in training mode"
CLIPPED = "before clipping and weight decay"
FINITE_SHARE = "share of steps at which its losses and gradients are finite"

COMMON = (
    Metric("teacher_labeled_accuracy", f"the teacher's, {ON_LABELED}", "accuracy", "teacher", ACCURACY, "teacher"),
    Metric(
        "student_labeled_accuracy",
        f"the student's after its update, {ON_LABELED}; only if the feedback computes it",
        "accuracy",
        "student",
        ACCURACY,
        "student",
    ),
    Metric("labeled_accuracy", f"the network's, {ON_LABELED}", "accuracy", "network", ACCURACY, "network"),
    Metric("test_accuracy", "at evaluations", "accuracy", "run", EVALUATION, "test", "test", 5),
    Metric("val_accuracy", "at evaluations", "accuracy", "run", EVALUATION, "validation", "val", 4),
    Metric("test_nll", "at evaluations: negative log-likelihood", "loss", "run"),
    Metric(
        "feedback",
        "h; its mean over the batch if each example has its own",
        "h",
        "student",
        FEEDBACK,
        "h",
        "h",
        3,
        must_move=True,
    ),
    Metric(
        "baseline", "the moving average that is subtracted from h, before the step", "h", "run", FEEDBACK, "baseline"
    ),
    Metric(
        "feedback_cosine",
        "cosine of the two gradients, before the baseline; not with `finite_difference` and `none`",
        "h",
        "student",
    ),
    Metric(
        "feedback_horizon",
        'for how many steps the student keeps what it learns; with `feedback.scale = "horizon"`',
        "steps",
        "student",
    ),
    Metric("loss", "cross-entropy of the network on labelled examples", "loss", "network", LOSSES, "loss", "loss", 0),
    Metric(
        "teacher_loss",
        "cross-entropy of the teacher on labelled examples",
        "loss",
        "teacher",
        LOSSES,
        "teacher",
        "T",
        1,
    ),
    Metric(
        "student_loss", "cross-entropy of the student on pseudo labels", "loss", "student", LOSSES, "student", "S", 2
    ),
    Metric(
        "student_labeled_loss",
        "cross-entropy of the student on true labels, before its factor; only with `labeled_weight`",
        "loss",
        "student",
        LOSSES,
        "student, true labels",
    ),
    Metric(
        "consistency_loss",
        "difference between two views of unlabelled examples, before its factor",
        "loss",
        "network",
        LOSSES,
        "consistency",
        "consistency",
        6,
        must_move=True,
    ),
    Metric(
        "unlabeled_loss",
        "cross-entropy on pseudo labels of a network that also learns true labels",
        "loss",
        "network",
        LOSSES,
        "unlabelled",
        "unlabeled",
        7,
        must_move=True,
    ),
    Metric(
        "contrast_loss",
        "cross-entropy of telling an example's other view from other examples, without labels",
        "loss",
        "network",
        LOSSES,
        "contrast",
        "contrast",
        1,
        must_move=True,
    ),
    Metric(
        "contrast_accuracy",
        "share of unlabelled examples whose other view is nearer than all other examples",
        "share",
        "network",
        CONTRAST,
        "other view is the nearest",
        "nearest",
        10,
    ),
    Metric(
        "spread",
        "standard deviation of the projections, which have length 1, times the root of their width: near 1 if they go "
        "in all directions, 0 if they have collapsed to one",
        "share",
        "network",
        CONTRAST,
        "spread",
        "spread",
        11,
    ),
    Metric(
        "pseudo_label_accuracy",
        "share of the pseudo labels that are right, among examples whose truth is known; no method sees it",
        "share",
        "run",
        PSEUDO_LABELS,
        "right, where the truth is known",
        "labels",
        9,
    ),
    Metric(
        "student_agreement",
        "share of unlabelled examples for which the student's best class is the pseudo label: its *training* accuracy "
        "in the paper's Appendix D.3",
        "share",
        "student",
        PSEUDO_LABELS,
        "the student agrees",
    ),
    Metric(
        LARGEST,
        "in reports: share of the most frequent pseudo label",
        "share",
        "run",
        PSEUDO_LABELS,
        "most frequent class",
    ),
    Metric(HISTOGRAM, "share of each class among the pseudo labels", "share", "run"),
    Metric(
        "mask_rate",
        "share of unlabelled examples above the threshold",
        "share",
        "network",
        MASKS,
        "unlabelled",
        "mask",
        8,
    ),
    Metric(
        "rated_closeness",
        "CTAugment: probability of the right class for labelled pictures, distorted at even levels",
        "share",
        "network",
    ),
    Metric("labeled_mask_rate", "share of labelled examples below the cap", "share", "network", MASKS, "labelled"),
    Metric("gradient_norm", f"the network's, {CLIPPED}", "norm", "network", NORMS, "network"),
    Metric("teacher_gradient_norm", f"the teacher's, {CLIPPED}", "norm", "teacher", NORMS, "teacher"),
    Metric("student_gradient_norm", f"the student's, {CLIPPED}", "norm", "student", NORMS, "student", must_move=True),
    Metric("finite_network", FINITE_SHARE, "share", "network"),
    Metric("finite_teacher", FINITE_SHARE, "share", "teacher"),
    Metric("finite_student", FINITE_SHARE, "share", "student"),
)
REGISTRY: dict[str, Metric] = {metric.name: metric for metric in COMMON}


def declare(metrics: Iterable[Metric]) -> None:
    """Add metrics that single methods report."""
    for metric in metrics:
        if REGISTRY.setdefault(metric.name, metric) != metric:
            raise ValueError(f"the metric {metric.name!r} is declared twice, with different meanings")


class Chart(NamedTuple):
    """Which metrics one chart shows."""

    title: str
    unit: str
    names: dict[str, str]  # metric -> its name in the chart
    percent: bool = False


def charts() -> list[Chart]:
    """Return the charts of a report, in the order of the registry."""
    titles = dict.fromkeys(metric.chart for metric in REGISTRY.values() if metric.chart)
    return [_chart(title, [metric for metric in REGISTRY.values() if metric.chart == title]) for title in titles]


def _chart(title: str, metrics: Collection[Metric]) -> Chart:
    unit = next(metric.unit for metric in metrics)
    percent = unit in ("accuracy", "share")
    names = {metric.name: metric.label for metric in metrics}
    return Chart(title, f"{unit} (%)" if percent else unit, names, percent)


def on_status_line() -> dict[str, str]:
    """Return the main metrics with their short names, the most important first."""
    shown = sorted((metric for metric in REGISTRY.values() if metric.short), key=lambda metric: metric.rank)
    return {metric.name: metric.short for metric in shown}


def must_move() -> list[str]:
    """Return the metrics of which 0 at every step means that nothing is learnt from unlabelled examples."""
    return [metric.name for metric in REGISTRY.values() if metric.must_move]


def by_network(names: Collection[str]) -> dict[str, list[str]]:
    """Sort losses, gradient norms and h by network: teacher and student if there are two, else one `network`.

    These numbers stop being finite when their network breaks.
    """
    known = [REGISTRY[name] for name in names if name in REGISTRY]
    only = "teacher" if any(metric.whose == "teacher" for metric in known) else "network"
    networks: dict[str, list[str]] = {}
    for metric in known:
        if metric.unit in ("loss", "norm", "h") and metric.whose != "run":
            networks.setdefault("student" if metric.whose == "student" else only, []).append(metric.name)
    return networks


def learns_unlabeled(names: Collection[str]) -> bool:
    """Return whether these numbers come from a method that learns from unlabelled examples."""
    return any(name in (HISTOGRAM, "student_agreement", *must_move()) for name in names)


def table() -> str:
    """Return the docs' table of all metrics, as Markdown."""
    rows = [f"| `{metric.name}` | {metric.meaning} | {metric.whose} |" for metric in REGISTRY.values()]
    return "\n".join(["| number | what | whose |", "|---|---|---|", *rows])
