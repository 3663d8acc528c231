"""The paper's Figure 2: what each method makes of the plane, on one data set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metapl import evaluate
from metapl.train import Trained

COLORS = ("#d95f02", "#1b7f79")  # told apart by colour-blind eyes and in grey print, unlike red and green
GRID = 300
COLUMNS = 5


def draw(panels: Mapping[str, tuple[Trained, float]], path: Path) -> None:
    """Draw the decision regions of every method side by side, on the first data set, and save the picture."""
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(3.0 * min(COLUMNS, len(panels)), 2.8 * rows + 0.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, min(COLUMNS, len(panels)))).ravel()
    for axis, (title, (trained, accuracy)) in zip(axes, panels.items(), strict=False):
        _draw_panel(axis, trained)
        axis.set_title(f"{title}: {accuracy:.1%}", fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle("Decision regions on the first data set; the six labelled points are the large ones", fontsize=11)
    figure.savefig(path, dpi=130)


def _draw_panel(axis: Any, trained: Trained) -> None:
    dataset = trained.datasets[0]
    points = np.asarray(dataset.test)
    low, high = points.min(0) - 0.3, points.max(0) + 0.3
    extent = (low[0], high[0], low[1], high[1])
    colors = LinearSegmentedColormap.from_list("classes", COLORS)
    axis.imshow(_regions(trained, low, high), extent=extent, origin="lower", cmap=colors, vmin=0, vmax=1, alpha=0.35)
    axis.scatter(*points.T, s=2, c=[COLORS[label] for label in dataset.test_labels], linewidths=0)
    axis.scatter(
        *np.asarray(dataset.labeled).T,
        s=110,
        c=[COLORS[label] for label in dataset.labels],
        marker="o",
        edgecolors="black",
        linewidths=1.5,
    )
    axis.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:], aspect="equal")


def _regions(trained: Trained, low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.float64]:
    """The class of every point of a grid, as a picture."""
    x, y = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID))
    grid = jnp.asarray(np.stack([x.ravel(), y.ravel()], -1)[None], jnp.float32)
    weights = jax.tree.map(lambda leaf: leaf[:1], trained.weights)
    logits = evaluate.logits(trained.network, weights, grid)
    return np.asarray(logits).argmax(-1).reshape(GRID, GRID).astype(np.float64)
