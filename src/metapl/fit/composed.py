"""Write the run of a rung of heads: the frozen encoder and its heads as one network."""

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from metapl.algorithms.supervised import Supervised
from metapl.config import Config, Stage
from metapl.data.sources.dataset import Dataset
from metapl.features.encoders import encoder_of
from metapl.fit import listing
from metapl.fit.encoded import Encoded
from metapl.fit.rung import Logits
from metapl.models.assemble import Encoder, Head
from metapl.runs import compose

LINEAR_STAGES = (Stage(Supervised(), steps=1),)  # stands for scikit-learn's fit


def write_composed(
    out: Path,
    name: str,
    some: Encoded,
    heads: Sequence[Head],
    test: Logits,
    stages: tuple[Stage, ...],
    seed: int,
    encoder: Encoder | None = None,
) -> None:
    """Write the run `name` into a fit's folder; `test` are its logits for the test pictures.

    The encoder is the frozen one, unless another one is given.
    """
    pictures = some.prepared.pictures
    source = listing.settings(out, some.settings.size)
    assert source is not None
    examples = some.prepared.examples
    dataset = Dataset(
        labeled=examples["labeled"],
        labels=some.labels,
        unlabeled=examples.get("unlabeled", examples["labeled"]),
        test=examples["test"],
        test_labels=some.test_labels,
        class_names=some.class_names,
        manifest=pictures.manifest,
    )
    config = Config(seed=seed, data=source, stages=stages)
    encoder = encoder or encoder_of(some.prepared.encode)
    compose.write_run(out / name, config, encoder, heads, dataset, Console(file=io.StringIO()), test=test)
