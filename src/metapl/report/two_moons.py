"""The paper's Figure 2: the decision regions of each method, on one data set."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metapl.augment.views import Augmentation
from metapl.data.sources.dataset import Dataset
from metapl.evaluate import held_out
from metapl.train.loop import Trained

COLORS = ("#d95f02", "#1b7f79")  # different for colour-blind people and in grey print, unlike red and green
GRID = 300
COLUMNS = 5


class Panel(NamedTuple):
    """One method on one data set."""

    title: str
    accuracy: float
    trained: Trained
    dataset: Dataset


def draw(panels: Sequence[Panel]) -> bytes:
    """Draw the decision regions of every method side by side, on the first data set; return a PNG."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.8 * rows + 0.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        _draw_panel(axis, panel)
        axis.set_title(f"{panel.title}: {panel.accuracy:.1%}", fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle("Decision regions on the first data set; the six labelled points are the large ones", fontsize=11)
    file = io.BytesIO()
    figure.savefig(file, dpi=130)
    return file.getvalue()


def _draw_panel(axis: Any, panel: Panel) -> None:
    dataset = panel.dataset
    points = np.asarray(dataset.test, np.float32)
    low, high = points.min(0) - 0.3, points.max(0) + 0.3
    extent = (low[0], high[0], low[1], high[1])
    colors = LinearSegmentedColormap.from_list("classes", COLORS)
    regions = _regions(panel.trained, low, high)
    axis.imshow(regions, extent=extent, origin="lower", cmap=colors, vmin=0, vmax=1, alpha=0.35)
    axis.scatter(*points.T, s=2, c=[COLORS[label] for label in dataset.test_labels], linewidths=0)
    large = {"s": 110, "edgecolors": "black", "linewidths": 1.5}
    axis.scatter(*np.asarray(dataset.labeled, np.float32).T, c=[COLORS[label] for label in dataset.labels], **large)
    axis.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:], aspect="equal")


def _regions(trained: Trained, low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.float64]:
    """The class of every point of a grid, as a picture."""
    x, y = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID))
    grid = np.stack([x.ravel(), y.ravel()], -1).astype(np.float32)
    first = trained._replace(weights=jax.tree.map(lambda leaf: leaf[:1], trained.weights))
    return held_out.logits(first, Augmentation(), [grid]).argmax(-1).reshape(GRID, GRID).astype(np.float64)
