"""Compare the two models, and write the verdict: verdict.json, verdict.md, two lists of pictures, model.json."""

from pathlib import Path
from typing import Any

import numpy as np

from metapl.data.sources.dataset import SourceConfig
from metapl.data.sources.source import PictureConfig
from metapl.fit import predictions, report, verdict
from metapl.fit.choose import FitPlan
from metapl.fit.folder import FORMAT, MODEL, VERDICT, write_json
from metapl.fit.listing import GOES_ON
from metapl.fit.predictions import VerdictPictures
from metapl.fit.verdict import MPL, PictureFacts
from metapl.system.disk import explaining_disk_errors, write_atomically

FEW_STEPS = 1000


def conclude(
    out: Path, source: SourceConfig, seed: int, facts: dict[str, Any], plan: FitPlan, names: list[str]
) -> None:
    """Let the trained models predict, judge them, and write the verdict; model.json comes last."""
    assert isinstance(source, PictureConfig)
    about = predictions.read_pictures(source, seed, bool(facts["unlabeled"]))
    result = verdict.verdict({name: predictions.predict(out / name, about) for name in names}, _facts(about))
    result |= {"measured_on": facts["measured_on"], "remarks": facts["remarks"], "chosen": plan.reasons}
    if facts["leaks"]:
        result["warnings"].append("Labelled pictures are also in val or test: the accuracies are too high.")
    if plan.choice.steps < FEW_STEPS and names[-1] == MPL:
        result["warnings"].append(
            f"MPL had only {plan.choice.steps} steps. Learning from unlabelled pictures needs more steps than learning "
            "from labels: give a larger --budget for a fairer comparison."
        )
    model = result["models"][result["recommended"]]
    with explaining_disk_errors(out, GOES_ON):
        write_atomically(out / "least_sure.csv", report.rows_as_csv(result["least_sure"], first=("label",)))
        write_atomically(out / "label_next.csv", report.rows_as_csv(result["label_next"]))
        write_atomically(out / "verdict.md", report.markdown(result).encode())
    write_json(out / VERDICT, result)
    write_json(out / MODEL, {"format": FORMAT, "run": result["recommended"], "temperature": model["temperature"]})


def _facts(about: VerdictPictures) -> PictureFacts:
    dataset = about.dataset
    return PictureFacts(
        np.zeros(0, np.int32) if dataset.val_labels is None else dataset.val_labels,
        dataset.test_labels,
        about.test_names,
        about.unlabeled_names,
        dataset.class_names,
        np.bincount(dataset.labels, minlength=len(dataset.class_names)),
    )
