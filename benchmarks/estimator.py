"""`MetaPseudoLabels` against scikit-learn's logistic regression, on the same splits.

    python benchmarks/estimator.py [SPLITS] [FEATURES.npz ...]

A split draws a third of a data set as test part, some labelled examples of each class, and takes the rest as unlabelled
ones. Logistic regression has its default settings, on features that are standardised by the labelled examples. Prints
the accuracies of both on every split, and the mean of their differences with its 95 % interval. An .npz holds your own
features: X [N, D] and y [N]; 20 labels of each class are drawn.

Results are in docs/features.md.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metapl import MetaPseudoLabels

Numbers = NDArray[np.float64]

# name -> (loader, labelled examples of each class)
DATA = {
    "digits, 5 labels a class": (load_digits, 5),
    "digits, 20 labels a class": (load_digits, 20),
    "iris, 10 labels a class": (load_iris, 10),
    "iris, 20 labels a class": (load_iris, 20),
    "wine, 5 labels a class": (load_wine, 5),
    "breast cancer, 10 labels a class": (load_breast_cancer, 10),
}
OWN = 20  # labels of each class, of features in a file


def split(y: NDArray[np.int64], each: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """Rows of labelled, unlabelled and test examples."""
    order = np.random.RandomState(seed).permutation(len(y))
    test, rest = order[: len(y) // 3], order[len(y) // 3 :]
    labeled = np.concatenate([rest[y[rest] == label][:each] for label in np.unique(y)])
    return labeled, np.setdiff1d(rest, labeled), test


def compare(x: Numbers, y: NDArray[np.int64], each: int, splits: int) -> Numbers:
    """Accuracies in percent of logistic regression and of ours: [splits, 2]."""
    scores = []
    for seed in range(splits):
        labeled, unlabeled, test = split(y, each, seed)
        usual = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[labeled], y[labeled])
        ours = MetaPseudoLabels(random_state=seed).fit(x[labeled], y[labeled], unlabeled=x[unlabeled])
        scores.append([100 * model.score(x[test], y[test]) for model in (usual, ours)])
    return np.array(scores)


def show(name: str, scores: Numbers) -> None:
    """Print a row of the table, and each split's difference."""
    gains = scores[:, 1] - scores[:, 0]
    reach = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains))
    usual, ours = scores.mean(0)
    each = " ".join(f"{gain:+.1f}" for gain in gains)
    interval = f"{gains.mean():+.1f} [{gains.mean() - reach:+.1f}, {gains.mean() + reach:+.1f}]"
    print(f"| {name} | {usual:.1f} | {ours:.1f} | {interval} | {each} |", flush=True)


def main(splits: int, files: list[Path]) -> None:
    """Compare on every data set."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| data | logistic regression (%) | MetaPseudoLabels (%) | difference, 95 % interval | each split |")
    print("|---|---|---|---|---|")
    for name, (load, each) in DATA.items():
        x, y = load(return_X_y=True)
        show(name, compare(x, y, each, splits))
    for file in files:
        with np.load(file, allow_pickle=False) as own:
            show(file.stem, compare(own["X"].astype(float), own["y"].astype(np.int64), OWN, splits))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, [Path(name) for name in sys.argv[2:]])
