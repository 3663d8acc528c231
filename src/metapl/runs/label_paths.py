"""pseudo_labels.jsonl: how the labels of a few unlabelled pictures change during training, for whoever looks later.

Up to 40 times in a stage, whoever gives the pseudo labels is asked about the same pictures, as they are (the eval
view, no noise), and its classes and certainties become a line; at the end of a stage that has a teacher, another line
has the teacher's predictions for the test part. Only the run's first seed is looked at. Nothing random is drawn, so the
training does not change. A resumed run continues the file to the same bytes, as it does with metrics.jsonl.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapl.augment.views import is_picture
from metapl.config import Config, Stage
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.on_disk import Examples
from metapl.evaluate import held_out
from metapl.runs import checkpoint
from metapl.runs.journal import Journal, Mark, Unwritten
from metapl.schema import ConfigError
from metapl.system import processes
from metapl.train.loop import Labeling, Record
from metapl.train.program import Program

FILE = "pseudo_labels.jsonl"
FEWEST_MOMENTS, MOST_MOMENTS = 2, 40  # of a stage
MOST_TEST = 10_000  # test pictures, at equal distances where there are more
SHARE = 0.005  # of what a stage's steps compute may be spent on asking
PASSES = 3  # forward and backward, in forward passes: what a step computes for each of its examples, at the least

Rows = NDArray[np.int64]


def wanted(config: Config, program: Program, dataset: Dataset) -> bool:
    """Is there anything to note?"""
    labels = any(stage.labeler for stage in program.stages)
    return labels and config.record_labels > 0 and is_picture(dataset.labeled) and len(dataset.unlabeled) > 0


def opened(out: Path, mark: Mark, say: Callable[[str], None]) -> Journal:
    """The file, open from where the checkpoint has it; one process writes it. One that was changed is set aside."""
    if not processes.is_leader():
        return Unwritten()
    try:
        return Journal(out / FILE, mark)
    except ConfigError:
        old = checkpoint.set_aside(out / FILE).name if (out / FILE).exists() else None
        kept = f"set aside as {old}" if old else "gone"
        say(f"{FILE} is not what it was at the checkpoint, and {kept}: the run goes on, with labels from here on")
        return Journal(out / FILE)


def recorder(config: Config, seed: int, datasets: Sequence[Dataset], lines: Journal) -> Record:
    """Make what the loop shows its labelers to; the datasets are those of seeds that train together."""
    dataset = datasets[0]
    rows = spread(len(dataset.unlabeled), config.record_labels)
    pictures: list[NDArray[np.generic]] = []  # read once, when they are needed

    def note(stage: int, step: int, labeling: Labeling) -> None:
        by = "teacher" if labeling.labeler.teaches else "network"
        place = {"seed": seed, "stage": stage, "step": step, "by": by}
        if labeling.labeler.corrector is None and not pictures:
            pictures.append(some(dataset.unlabeled, rows))
        examples = given(labeling, rows) if labeling.labeler.corrector else pictures[0]
        predictions = _answers(config, labeling, examples, _at_once(config, labeling, datasets, len(rows)))
        lines.add(place | {"part": "unlabeled", "of": len(dataset.unlabeled)} | predictions)
        if step == config.stages[stage].steps and labeling.labeler.teaches and labeling.labeler.corrector is None:
            size = held_out.examined_at_once(labeling.trained, config.augmentation, datasets)
            predictions = _answers(config, labeling, dataset.test, size, spread(len(dataset.test), MOST_TEST))
            lines.add(place | {"part": "test", "of": len(dataset.test)} | predictions)

    return Record([moments(stage, len(rows)) for stage in config.stages], note)


def spread(total: int, most: int) -> Rows:
    """Rows at equal distances, the first and the last among them; all where there are few."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(np.int64))


def moments(stage: Stage, pictures: int) -> list[int]:
    """After which steps of a stage to ask: at equal distances, so rarely that nobody notices, and at its end."""
    batch = stage.labeled_batch + (stage.unlabeled_batch if stage.method.uses_unlabeled else 0)
    affordable = int(SHARE * PASSES * stage.steps * batch / pictures)
    count = min(stage.steps, max(FEWEST_MOMENTS, min(MOST_MOMENTS, affordable)))
    return np.unique(np.linspace(0, stage.steps, count + 1).round().astype(int)[1:]).tolist()


def some(examples: Examples, rows: Rows) -> NDArray[np.generic]:
    """Single examples; of those on a disk only these are read."""
    if isinstance(examples, np.ndarray):
        return examples[rows]
    return np.concatenate([examples[int(row) : int(row) + 1] for row in rows])


def given(labeling: Labeling, rows: Rows) -> NDArray[np.float32]:
    """What the first seed's corrector is shown of these examples: the predictions of the stage before's network."""
    assert labeling.predictions is not None
    stored = labeling.predictions.unlabeled
    return np.asarray((stored if stored.ndim == 2 else stored[0])[rows], np.float32)


def _at_once(config: Config, labeling: Labeling, datasets: Sequence[Dataset], count: int) -> int | None:
    """As many as in an evaluation, whose program is there already, unless that would be far more than there are."""
    size = held_out.examined_at_once(labeling.trained, config.augmentation, datasets)
    return size if size <= 3 * count and labeling.labeler.corrector is None else None


def _answers(
    config: Config, labeling: Labeling, examples: Examples, size: int | None, rows: Rows | None = None
) -> dict[str, Any]:
    """Classes, and how sure of them the network is, in thousandths."""
    logits = held_out.logits(labeling.trained, config.augmentation, [examples], size)[0].astype(np.float64)
    logits = np.nan_to_num(logits if rows is None else logits[rows])
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    sure = shares.max(-1) / shares.sum(-1)
    return {"classes": logits.argmax(-1).tolist(), "thousandths": np.round(1000 * sure).astype(int).tolist()}
