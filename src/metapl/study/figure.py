"""The figure that a study has beside its forest plot: bars of the arms, lines over the cases, or curves over steps."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metapl.evaluate.statistics import mean_and_std
from metapl.runs import journal
from metapl.study.compare import Accuracies
from metapl.study.settings import FigureKind, Study

# (case, place of the curve in the settings) -> steps, and the mean over the seeds at each of them
Curves = Mapping[tuple[str, int], tuple[NDArray[np.int64], NDArray[np.float64]]]
NO_CURVES: Curves = {}
FAR = 20  # times the smallest x


def draw(study: Study, accuracies: Accuracies, curves: Curves) -> str:
    """Return the figure as SVG, or "" if the study has none or nothing was measured yet."""
    cases = [case for case in study.cases if any(case == one for one, _ in (*accuracies, *curves))]
    if study.figure.kind == "none" or not cases:
        return ""
    panels = 1 if study.figure.kind == "lines" else len(cases)
    figure = Figure(figsize=(1 + 5 * panels, 4.2), layout="constrained")
    for place in range(panels):
        axes = figure.add_subplot(1, panels, place + 1)
        _PAINTERS[study.figure.kind](axes, study, cases[place], accuracies, curves)
        axes.spines[["top", "right"]].set_visible(False)
        if panels > 1:
            axes.set_title(study.cases[cases[place]].title or cases[place], fontsize="medium")
    figure.suptitle(study.figure.title, fontsize="medium")
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def read_curves(study: Study, folder_of: Callable[[str, str], Path]) -> Curves:
    """The numbers of the study's curves, from the journals of the runs that have begun."""
    read = {}
    for case in study.cases:
        for place, curve in enumerate(study.figure.curves):
            path = folder_of(case, curve.arm) / journal.FILE
            if path.is_file() and (points := _curve(path, curve.metric)):
                steps = sorted(points)
                read[case, place] = np.array(steps), np.array([np.mean(points[step]) for step in steps])
    return read


def _curve(path: Path, metric: str) -> dict[int, list[float]]:
    """One metric of all seeds, by step of the first stage."""
    points: dict[int, list[float]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row.get("stage", 0) == 0 and isinstance(row.get(metric), int | float):
            points.setdefault(row["step"], []).append(float(row[metric]))
    return points


def _bars(axes: Axes, study: Study, case: str, accuracies: Accuracies, curves: Curves) -> None:
    measured = [(arm, *mean_and_std(values)) for (one, arm), values in accuracies.items() if one == case]
    places = range(len(measured))
    axes.bar(places, [mean for _, mean, _ in measured], yerr=[std for *_, std in measured], color="#1b6ca8", capsize=3)
    lowest = min(mean - std for _, mean, std in measured)
    axes.set_ylim(bottom=max(0.0, 5 * (lowest // 5) - 5))
    axes.set_xticks(places, [study.arms[arm].title or arm for arm, *_ in measured], rotation=30, ha="right")
    for place, (_, mean, std) in zip(places, measured, strict=True):
        axes.text(place, mean + std, f"{mean:.1f}", ha="center", va="bottom", fontsize="small")
    axes.set_ylabel("accuracy (%); the axis does not begin at 0")


def _lines(axes: Axes, study: Study, case: str, accuracies: Accuracies, curves: Curves) -> None:
    for arm in study.arms:
        points = [(study.cases[one].x, values) for (one, name), values in accuracies.items() if name == arm]
        placed = sorted((x, *mean_and_std(values)) for x, values in points if x is not None)
        if placed:
            xs, means, stds = zip(*placed, strict=True)
            axes.errorbar(xs, means, stds, fmt="o-", capsize=3, label=study.arms[arm].title or arm)
    _place_cases(axes, sorted(one.x for one in study.cases.values() if one.x is not None))
    axes.set_xlabel(study.figure.x_title)
    axes.set_ylabel("accuracy (%)")
    axes.legend(frameon=False)


def _place_cases(axes: Axes, xs: list[float]) -> None:
    """If the cases reach far, use equal distances for equal ratios, and mark each case."""
    if xs and 0 < FAR * xs[0] <= xs[-1]:
        axes.set_xscale("log")
        axes.set_xticks(xs, [f"{x:,g}" for x in xs])
        axes.minorticks_off()


def _curves(axes: Axes, study: Study, case: str, accuracies: Accuracies, curves: Curves) -> None:
    for place, curve in enumerate(study.figure.curves):
        if (case, place) in curves:
            steps, means = curves[case, place]
            axes.plot(steps, 100 * means, label=curve.title or f"{curve.arm}: {curve.metric}")
    axes.set_xlabel("step")
    axes.set_ylabel("training accuracy (%)")
    axes.legend(frameon=False)


_PAINTERS: dict[FigureKind, Callable[[Axes, Study, str, Accuracies, Curves], None]] = {
    "bars": _bars,
    "lines": _lines,
    "curves": _curves,
}
