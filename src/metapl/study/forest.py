"""A forest plot: every paired difference with its interval, one line each, case by case."""

import io
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from metapl.study.compare import ALL_CASES, Comparison
from metapl.study.settings import Study

COLOURS = {"confirmatory": "#1b6ca8", "exploratory": "#8a8a8a"}
COLLAPSE = 15.0  # points: a larger difference would flatten all others, so it is written at the edge instead
LETTERS = 54  # of a name, on one line
INCHES = 0.36  # of a line


def draw(study: Study, comparisons: Sequence[Comparison]) -> str:
    """Return the plot as SVG, or "" if there is nothing to draw."""
    if not comparisons:
        return ""
    lines = _lines(study, comparisons)
    figure = Figure(figsize=(9.5, 1.2 + INCHES * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    edge = reach(comparisons)
    for place, line in enumerate(lines):
        if not isinstance(line, str):
            _draw_one(axes, place, line, edge)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlim(-edge, edge)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    _name_lines(axes, study, lines)
    axes.set_xlabel("← worse    difference of accuracy in points, with its 95 % interval    better →")
    kinds = [kind for kind in COLOURS if any(one.pair.kind == kind for one in comparisons)]
    for kind in kinds if len(kinds) > 1 else ():
        axes.plot([], [], "o-", color=COLOURS[kind], label=kind)
    if len(kinds) > 1:
        axes.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def reach(comparisons: Sequence[Comparison]) -> float:
    """How far the axis goes to both sides of 0: to the farthest end of an interval; a collapse does not count."""
    shown = [abs(end) for one in comparisons if abs(one.difference.mean) < COLLAPSE for end in _ends(one)]
    return 1.1 * max(shown, default=1.0) or 1.0


def name(study: Study, one: Comparison) -> str:
    """What is compared."""
    arm, control = (study.arms[arm].title or arm for arm in (one.pair.arm, one.pair.control))
    return one.pair.title or f"{arm} − {control}"


def case_of(study: Study, one: Comparison) -> str:
    """What the comparison's case is called; "" if there is only one."""
    if one.case == ALL_CASES:
        return "all cases together"
    return study.cases[one.case].title or one.case if len(study.cases) > 1 else ""


def label(study: Study, one: Comparison) -> str:
    """The case, and what is compared."""
    case = case_of(study, one)
    return f"{case}: {name(study, one)}" if case else name(study, one)


def _lines(study: Study, comparisons: Sequence[Comparison]) -> list[str | Comparison]:
    """The comparisons from top to bottom, each case under its name."""
    lines: list[str | Comparison] = []
    before = ""
    for one in comparisons:
        if (case := case_of(study, one)) != before:
            lines.append(case)
            before = case
        lines.append(one)
    return lines


def _name_lines(axes: Axes, study: Study, lines: Sequence[str | Comparison]) -> None:
    names = [line if isinstance(line, str) else "\n".join(textwrap.wrap(name(study, line), LETTERS)) for line in lines]
    axes.set_yticks(range(len(lines)), names, fontsize="small")
    axes.tick_params("y", length=0)
    for tick, line in zip(axes.get_yticklabels(), lines, strict=True):
        tick.set_fontweight("bold" if isinstance(line, str) else "normal")


def _draw_one(axes: Axes, place: int, one: Comparison, edge: float) -> None:
    mean, colour = one.difference.mean, COLOURS[one.pair.kind]
    axes.text(
        1.02, place, numbers(one), color=colour, va="center", fontsize="small", transform=axes.get_yaxis_transform()
    )
    if abs(mean) >= COLLAPSE:
        left = mean < 0
        axes.text(-edge if left else edge, place, "◀" if left else "▶", color=colour, va="center",
                  ha="left" if left else "right", fontsize="small")  # fmt: skip
        return
    axes.plot(_ends(one), [place, place], color=colour, linewidth=2)
    axes.plot(mean, place, "o", color=colour)


def numbers(one: Comparison) -> str:
    """The difference, and its interval if there is one."""
    d = one.difference
    return f"{d.mean:+.2f}" if d.low is None or d.high is None else f"{d.mean:+.2f} [{d.low:+.2f}, {d.high:+.2f}]"


def _ends(one: Comparison) -> tuple[float, float]:
    low, high = one.difference.low, one.difference.high
    return (one.difference.mean,) * 2 if low is None or high is None else (low, high)
