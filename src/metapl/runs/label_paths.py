"""pseudo_labels.jsonl: how the pseudo labels of a few unlabelled pictures change during training, for reports.

Up to 40 times in a stage, the network that gives the pseudo labels predicts for the same pictures (eval view, no
noise), and a line notes its classes and probabilities. At the end of a stage that has a teacher, another line has the
teacher's predictions for the test part. Only the run's first seed is recorded. Nothing random is drawn, so the training
does not change. A resumed run continues the file to the same bytes, as it does with metrics.jsonl.
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
MOST_TEST = 10_000  # test pictures; if there are more, evenly spaced ones
SHARE = 0.005  # the most that recording may cost, relative to a stage's steps
PASSES = 3  # the least that a step costs for each of its examples, in forward passes

Rows = NDArray[np.int64]


def wanted(config: Config, program: Program, dataset: Dataset) -> bool:
    """Whether the run records pseudo labels."""
    labels = any(stage.labeler for stage in program.stages)
    return labels and config.record_labels > 0 and is_picture(dataset.labeled) and len(dataset.unlabeled) > 0


def opened(out: Path, mark: Mark, say: Callable[[str], None]) -> Journal:
    """Open the file at the checkpoint's mark; only the leader writes it. A file that was changed is set aside."""
    if not processes.is_leader():
        return Unwritten()
    try:
        return Journal(out / FILE, mark)
    except ConfigError:
        old = checkpoint.set_aside(out / FILE).name if (out / FILE).exists() else None
        problem = f"is not what it was at the checkpoint, and is set aside as {old}" if old else "is missing"
        say(f"{FILE} {problem}: the run continues, and records labels from here on")
        return Journal(out / FILE)


def recorder(config: Config, seed: int, datasets: Sequence[Dataset], lines: Journal) -> Record:
    """Make the record that the loop calls; `datasets` are those of the seeds that train at once."""
    dataset = datasets[0]
    rows = evenly_spaced(len(dataset.unlabeled), config.record_labels)
    pictures: list[NDArray[np.generic]] = []  # read at the first call

    def note(stage: int, step: int, labeling: Labeling) -> None:
        by = "teacher" if labeling.labeler.teaches else "network"
        place = {"seed": seed, "stage": stage, "step": step, "by": by}
        if labeling.labeler.corrector is None and not pictures:
            pictures.append(read_rows(dataset.unlabeled, rows))
        examples = corrector_inputs(labeling, rows) if labeling.labeler.corrector else pictures[0]
        predictions = _predictions(config, labeling, examples, _at_once(config, labeling, datasets, len(rows)))
        lines.add(place | {"part": "unlabeled", "of": len(dataset.unlabeled)} | predictions)
        if step == config.stages[stage].steps and labeling.labeler.teaches and labeling.labeler.corrector is None:
            size = held_out.examined_at_once(labeling.trained, config.augmentation, datasets)
            predictions = _predictions(
                config, labeling, dataset.test, size, evenly_spaced(len(dataset.test), MOST_TEST)
            )
            lines.add(place | {"part": "test", "of": len(dataset.test)} | predictions)

    return Record([moments(stage, len(rows)) for stage in config.stages], note)


def evenly_spaced(total: int, most: int) -> Rows:
    """Up to `most` of `total` rows, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(np.int64))


def moments(stage: Stage, pictures: int) -> list[int]:
    """The steps of a stage after which to record: evenly spaced, few enough to cost little, and its last."""
    batch = stage.labeled_batch + (stage.unlabeled_batch if stage.method.uses_unlabeled else 0)
    affordable = int(SHARE * PASSES * stage.steps * batch / pictures)
    count = min(stage.steps, max(FEWEST_MOMENTS, min(MOST_MOMENTS, affordable)))
    return np.unique(np.linspace(0, stage.steps, count + 1).round().astype(int)[1:]).tolist()


def read_rows(examples: Examples, rows: Rows) -> NDArray[np.generic]:
    """Return these examples; of files, only theirs are read."""
    if isinstance(examples, np.ndarray):
        return examples[rows]
    return np.concatenate([examples[int(row) : int(row) + 1] for row in rows])


def corrector_inputs(labeling: Labeling, rows: Rows) -> NDArray[np.float32]:
    """The first seed's inputs to its corrector for these examples: the previous stage's stored predictions."""
    assert labeling.predictions is not None
    stored = labeling.predictions.unlabeled
    return np.asarray((stored if stored.ndim == 2 else stored[0])[rows], np.float32)


def _at_once(config: Config, labeling: Labeling, datasets: Sequence[Dataset], count: int) -> int | None:
    """The batch size of an evaluation, whose program is compiled already, unless it is far more than `count`."""
    size = held_out.examined_at_once(labeling.trained, config.augmentation, datasets)
    return size if size <= 3 * count and labeling.labeler.corrector is None else None


def _predictions(
    config: Config, labeling: Labeling, examples: Examples, size: int | None, rows: Rows | None = None
) -> dict[str, Any]:
    """The predicted classes, and their probabilities in thousandths."""
    logits = held_out.logits(labeling.trained, config.augmentation, [examples], size)[0].astype(np.float64)
    logits = np.nan_to_num(logits if rows is None else logits[rows])
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    largest = exponentials.max(-1) / exponentials.sum(-1)
    return {"classes": logits.argmax(-1).tolist(), "thousandths": np.round(1000 * largest).astype(int).tolist()}
