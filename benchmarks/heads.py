"""Aligned self-training against logistic regression, on the same stored features and the same draws of labels.

    python benchmarks/heads.py SOURCE LABELS [DRAWS] [ENCODER] [PICTURES]

SOURCE is cifar10, a folder such as imagenette64, … (docs/data.md). Each draw has LABELS labelled pictures of each
class, 4,000 unlabelled ones and the same 1,000 test pictures. ENCODER is auto (EfficientNet-Lite0 if it is installed),
patches or pixels; PICTURES (5,000) of the source's labelled pictures are encoded, once. Prints the accuracies of both
in percent for each draw, and the mean of their differences with its 95 % interval. Results are in docs/features.md.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

from metapl import data
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.features import Encoder, Features
from metapl.recipe import aligned

UNLABELED, TEST = 4000, 1000


def accuracies(dataset: Dataset) -> tuple[float, float]:
    """Percent of the test pictures that logistic regression and aligned self-training get right."""
    labeled, unlabeled, test = (
        np.asarray(examples, np.float32)[:, 0] for examples in (dataset.labeled, dataset.unlabeled, dataset.test)
    )
    probe = LogisticRegression(max_iter=300).fit(labeled, dataset.labels)
    head = aligned.self_training(labeled, dataset.labels, unlabeled, len(dataset.class_names))
    layer: dict[str, NDArray[np.float32]] = head.weights.params["Dense_0"]
    predicted = np.argmax(test @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"]), -1)
    return 100 * probe.score(test, dataset.test_labels), 100 * float(np.mean(predicted == dataset.test_labels))


def main(source: str, labels: int, draws: int, encoder: Encoder, pictures: int) -> None:
    """Compare on every draw."""
    config = Features(
        source=source, encoder=encoder, views=1, labels_per_class=labels, unlabeled=UNLABELED, pictures=pictures,
        test_on=TEST,
    )  # fmt: skip
    scores = []
    for seed, dataset in enumerate(data.load(config, list(range(draws)), (Path(),), print)):
        scores.append(accuracies(dataset))
        print(f"draw {seed}: probe {scores[-1][0]:.1f}, aligned {scores[-1][1]:.1f}", flush=True)
    gains = np.diff(np.array(scores))[:, 0]
    reach = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains))
    print(f"difference {gains.mean():+.2f} [{gains.mean() - reach:+.2f}, {gains.mean() + reach:+.2f}]")


if __name__ == "__main__":
    given = [*sys.argv[1:], *("", "10", "10", "auto", "5000")[len(sys.argv) - 1 :]]
    main(given[0], int(given[1]), int(given[2]), given[3], int(given[4]))  # type: ignore[arg-type]
