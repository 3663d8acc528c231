"""A forest plot: every paired difference with its interval, one line each."""

import io
from collections.abc import Sequence

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from metapl.study.compare import Comparison
from metapl.study.settings import Study

COLOURS = {"confirmatory": "#1b6ca8", "exploratory": "#8a8a8a"}


def draw(study: Study, comparisons: Sequence[Comparison]) -> str:
    """Return the plot as SVG, or "" if there is nothing to draw."""
    if not comparisons:
        return ""
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(comparisons)))
    axes = figure.add_subplot()
    for place, one in enumerate(reversed(comparisons)):
        low, high = one.difference.low, one.difference.high
        colour = COLOURS[one.kind]
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(one.difference.mean, place, "o", color=colour)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(comparisons)), [label(study, one) for one in reversed(comparisons)])
    axes.set_xlabel("difference of accuracy in points, 95 % interval")
    for kind, colour in COLOURS.items():
        if any(one.kind == kind for one in comparisons):
            axes.plot([], [], "o-", color=colour, label=kind)
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def label(study: Study, one: Comparison) -> str:
    """What a comparison is called."""
    case = f"{study.cases[one.case].title or one.case}: " if len(study.cases) > 1 else ""
    return f"{case}{study.arms[one.arm].title or one.arm} − {study.arms[one.control].title or one.control}"
