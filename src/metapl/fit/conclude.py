"""Judge the rungs, and write the verdict: verdict.json, verdict.md, report.html, two lists of pictures, model.json."""

from typing import Any

import numpy as np

from metapl.fit import advice, joint, leave_out_foreign, own_patches, page, report, select, verdict
from metapl.fit import label_errors as hints
from metapl.fit.climb import Climb
from metapl.fit.encoded import Encoded, picture_names
from metapl.fit.folder import FORMAT, MODEL, VERDICT, write_json
from metapl.fit.heads import FILE, kept, log_probabilities
from metapl.fit.listing import GOES_ON
from metapl.fit.rung import Logits, Rung
from metapl.fit.scores import PictureFacts
from metapl.fit.verdict import Surroundings
from metapl.system.disk import explaining_disk_errors, write_atomically


def conclude(climb: Climb, finished: bool) -> dict[str, Any]:
    """Judge the finished rungs and write everything; `finished` says whether there is more to climb."""
    some, rungs = climb.features, climb.rungs()
    unlabeled = {rung.about.name: unlabeled_logits(climb, rung) for rung in rungs}
    around = Surroundings(some.validation_labels, unlabeled, some.unlabeled[some.judged], some.labeled, some.test)
    result = verdict.verdict(rungs, picture_facts(some), around)
    result |= {
        "finished": finished,
        "budget": climb.request.budget,
        "seconds": round(climb.clock.spent_s, 1),
        "measured_on": climb.facts["measured_on"],
        "remarks": climb.facts["remarks"],
        "chosen": chosen(climb),
        "left_out": climb.left_out,
        "not_tried": climb.not_tried,
        "skipped": climb.skipped,
        "curve": climb.plan.get("curve"),
        "labels": len(some.labels),
        "history": climb.facts.get("history", []),
        "label_errors": label_errors(climb, result["recommended"]),
        "foreign": foreign_listed(climb),
    }
    if climb.facts["leaks"]:
        result["warnings"].append("Labelled pictures are also in val or test: the accuracies are too high.")
    unused = climb.facts["unlabeled"] - len(some.unlabeled) - len(result["foreign"])
    result["advice"] = advice.sentences(result, result["curve"], unused)
    write(climb, result)
    return result


def write(climb: Climb, result: dict[str, Any]) -> None:
    """Write the files; verdict.json, which says that the fit is finished, comes last."""
    out = climb.out
    with explaining_disk_errors(out, GOES_ON):
        write_atomically(out / "least_sure.csv", report.rows_as_csv(result["least_sure"], report.WITH_LABEL))
        write_atomically(out / "label_next.csv", report.rows_as_csv(result["label_next"]))
        write_atomically(out / "label_errors.csv", report.rows_as_csv(result["label_errors"], report.WITH_LABEL))
        if result["foreign"]:
            write_atomically(out / leave_out_foreign.TABLE, report.rows_as_csv(result["foreign"], report.FOREIGN))
        write_atomically(out / "verdict.md", report.markdown(result).encode())
        write_atomically(out / page.PAGE, page.page(result, climb.features).encode())
    best = next(row for row in result["ladder"] if row["name"] == result["recommended"])
    write_json(out / MODEL, {"format": FORMAT, "run": best["name"], "temperature": best["temperature"]})
    write_json(out / VERDICT, result)


def unlabeled_logits(climb: Climb, rung: Rung) -> Logits:
    """What a rung predicts for the unlabelled pictures that are judged."""
    folder, some = climb.out / rung.about.name, climb.features
    if (folder / FILE).is_file():
        return log_probabilities(kept(folder), some.unlabeled[some.judged])
    own = rung.predictions.unlabeled
    if rung.about.name == joint.NAME:  # it predicts all: fewer may be judged later, if time gets short
        return own[some.judged]
    return own if len(own) == len(some.judged) else own[:0]  # their features are not there: stopped before that


def label_errors(climb: Climb, name: str) -> list[dict[str, Any]]:
    """Labels that look wrong to the recommended rung's models that had not seen them; none without folds.

    A finetuned network is validated by one fold alone: then the best rung that predicted all of them looks at them.
    """
    some = climb.features
    if not some.folds:
        return []
    able = [rung for rung in climb.rungs() if select.predicted(rung)[: len(some.labels)].all()]
    best = next((rung for rung in able if rung.about.name == name), select.best(able, some.validation_labels))
    of_labeled = best.predictions.validation[: len(some.labels)]
    return hints.suspected(of_labeled, some.labels, picture_names(some, "labeled"), some.class_names)


def foreign_listed(climb: Climb) -> list[dict[str, Any]]:
    """The unlabelled pictures that were left out."""
    some, images = climb.features, climb.features.prepared.pictures.images("unlabeled")
    names = [images.name(row) for row in range(len(images))]
    return leave_out_foreign.listed(climb.out, names, some.labels, some.class_names)


def picture_facts(some: Encoded) -> PictureFacts:
    """Labels and names, for lists and tables."""
    return PictureFacts(
        some.test_labels,
        picture_names(some, "test"),
        picture_names(some, "unlabeled"),
        some.class_names,
        np.bincount(some.labels, minlength=len(some.class_names)),
    )


def chosen(climb: Climb) -> list[str]:
    """What the program chose, and why."""
    settings, some = climb.features.settings, climb.features
    why = "as --features says" if climb.request.features == "patches" else "because no pretrained network is installed"
    encoders = {"patches": f"k-means patches learnt from your own pictures, {why}"}
    about = encoders.get(settings.encoder, f"{settings.init_from or settings.encoder}, a pretrained network")
    said = [
        f"features: {about}",
        f"pictures of {settings.size}×{settings.size} pixels (your median side: {climb.facts['side']} px)",
        f"C of the logistic regressions: {climb.plan.get('c'):g}, by cross-validation",
    ]
    if (weight := climb.plan.get(own_patches.WEIGHT)) is not None:
        used = "used" if own_patches.are_used(climb) else "not used"
        said.append(
            f"patches of your own pictures, beside the pretrained network: {used}, because the labelled pictures give "
            f"them a weight of {weight:g} (used from {own_patches.LEAST:g} on)"
        )
    if some.folds:
        said.append(
            f"chosen and calibrated by {some.folds}-fold cross-validation: every model is trained on all labels"
        )
    else:
        said.append("chosen and calibrated on the val part")
    if climb.has_unlabeled:
        said.append(f"{len(some.unlabeled):,} of {climb.facts['unlabeled']:,} unlabelled pictures used")
    return said
