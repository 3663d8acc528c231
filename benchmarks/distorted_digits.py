"""What strong views are for: supervised learning on digits with 40 labels, tested on pictures as they are or distorted.

    python benchmarks/distorted_digits.py

Trains digits_supervised_small and the same with strong views, by RandAugment and by AutoAugment, ten seeds each on one
split. The distorted test pictures are drawn once, by AutoAugment's policy for SVHN: views of the same kind as those
that one of the three learns from. Prints a table as Markdown; differences are paired, seed by seed.
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metapl import config, data
from metapl.augment.autoaugment import AutoAugment
from metapl.augment.strong import distort
from metapl.cli.data_folders import folders
from metapl.evaluate import held_out
from metapl.evaluate.statistics import mean_and_std, paired
from metapl.system import runtime
from metapl.train.loop import train

SEEDS = list(range(10))
ARMS = {
    "weak views": "digits_supervised_small",
    "strong views, RandAugment": "digits_randaugment_small",
    "strong views, AutoAugment": "digits_autoaugment_small",
}


def accuracies(preset: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the accuracy of each seed in percent, on test pictures as they are and distorted."""
    settings = config.load(preset)
    (dataset,) = data.load(settings.data, [0], folders(None), print)
    distorted = distort(AutoAugment("svhn"), jnp.asarray(dataset.test), jax.random.key(0))
    trained = train(settings, SEEDS, [dataset] * len(SEEDS))

    def measured(test: NDArray[np.generic]) -> NDArray[np.float64]:
        datasets = [dataset._replace(test=test)] * len(SEEDS)
        return 100 * held_out.accuracies(trained, settings.augmentation, datasets)

    return measured(np.asarray(dataset.test)), measured(np.asarray(distorted))


def main() -> None:
    """Train the three, and print the table."""
    runtime.start()
    print("| learns from | as they are (%) | difference | distorted (%) | difference |")
    print("|---|---|---|---|---|")
    first = None
    for title, preset in ARMS.items():
        both = accuracies(preset)
        first = first or both
        cells = []
        for ours, theirs in zip(both, first, strict=True):
            mean, std = mean_and_std(ours)
            gain = paired(ours, theirs)
            apart = f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]" if first is not both else ""
            cells += [f"{mean:.2f} ± {std:.2f}", apart]
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
