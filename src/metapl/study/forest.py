"""A forest plot: every paired difference with its interval, one line each."""

import io
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from metapl.study.compare import Comparison
from metapl.study.settings import Study

COLOURS = {"confirmatory": "#1b6ca8", "exploratory": "#8a8a8a"}
COLLAPSE = 10.0  # points: a larger difference would flatten all others, so it is written at the edge instead
LETTERS = 62  # of a label, on one line


def draw(study: Study, comparisons: Sequence[Comparison]) -> str:
    """Return the plot as SVG, or "" if there is nothing to draw."""
    if not comparisons:
        return ""
    figure = Figure(figsize=(11, 1.2 + 0.45 * len(comparisons)), layout="constrained")
    axes = figure.add_subplot()
    edge = reach(comparisons)
    for place, one in enumerate(reversed(comparisons)):
        _draw_one(axes, place, one, edge)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlim(-edge, edge)
    labels = ["\n".join(textwrap.wrap(label(study, one), LETTERS)) for one in reversed(comparisons)]
    axes.set_yticks(range(len(comparisons)), labels, fontsize="small")
    axes.set_xlabel("difference of accuracy in points, 95 % interval")
    for kind, colour in COLOURS.items():
        if any(one.kind == kind for one in comparisons):
            axes.plot([], [], "o-", color=colour, label=kind)
    axes.legend(frameon=False, fontsize="small", loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def reach(comparisons: Sequence[Comparison]) -> float:
    """How far the axis goes to both sides of 0: to the farthest end of an interval; a collapse does not count."""
    shown = [abs(end) for one in comparisons if abs(one.difference.mean) < COLLAPSE for end in _ends(one)]
    return 1.1 * max(shown, default=1.0) or 1.0


def label(study: Study, one: Comparison) -> str:
    """What a comparison is called."""
    case = f"{study.cases[one.case].title or one.case}: " if len(study.cases) > 1 else ""
    return f"{case}{study.arms[one.arm].title or one.arm} − {study.arms[one.control].title or one.control}"


def _draw_one(axes: Axes, place: int, one: Comparison, edge: float) -> None:
    mean, colour = one.difference.mean, COLOURS[one.kind]
    if abs(mean) >= COLLAPSE:
        left = mean < 0
        axes.text(-edge if left else edge, place, f"{'◀' if left else '▶'} {mean:+.1f}", color=colour, va="center",
                  ha="left" if left else "right", fontsize="small")  # fmt: skip
        return
    axes.plot(_ends(one), [place, place], color=colour, linewidth=2)
    axes.plot(mean, place, "o", color=colour)


def _ends(one: Comparison) -> tuple[float, float]:
    low, high = one.difference.low, one.difference.high
    return (one.difference.mean,) * 2 if low is None or high is None else (low, high)
