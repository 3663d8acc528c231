"""The way from pictures to a verdict, in any number of sessions: what is done is not done again.

fit.json        what was asked for                      (written first: a folder that has it is a fit's)
audit.json      what is in the data, and what is wrong with it
pictures.csv    every picture's part (pictures.npz for arrays), then data.json: what was found out about them
plan.json       what was chosen, and why
supervised/     the baseline, a run like any other
mpl/            Meta Pseudo Labels, the same
verdict.json    and verdict.md, least_sure.csv, label_next.csv
model.json      which run to use, and its temperature   (written last: a folder that has it is finished)
"""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from metapl import recipe
from metapl.config import Config
from metapl.data.audit import audit
from metapl.data.audit.audit import Audit
from metapl.data.sources.source import PictureConfig
from metapl.fit import answers, choose, listing, report, start_from, verdict
from metapl.fit.choose import Facts, Plan
from metapl.fit.listing import GOES_ON
from metapl.fit.request import Request
from metapl.fit.verdict import MPL, SUPERVISED
from metapl.recipe import Choice
from metapl.runs import run_folder
from metapl.runs.resume import resume_run
from metapl.runs.start import start_run
from metapl.schema import ConfigError, to_dict
from metapl.system.disk import UNFINISHED, explaining_disk_errors, write_atomically
from metapl.system.folders import claim, next_free
from metapl.system.lock import locked
from metapl.system.signals import Stopped
from metapl.system.terminal import sayer
from metapl.types import ModelConfig

ASKED, DATA, PLAN, VERDICT, MODEL = "fit.json", "data.json", "plan.json", "verdict.json", "model.json"
LEFT_BY_A_KILL = (ASKED + UNFINISHED,)  # all that there is of a fit that was killed in its first moment
FORMAT = 1
FEW_STEPS = 1000
MEASURED_ON = {
    "test part": "the test part of the data, which nothing was trained or calibrated on",
    "val part": "two thirds of the val part, held out from training and calibration; there is no test part",
    "labelled pictures": "a fifth of the labelled pictures, held out from training and calibration, as there is no "
    "test part",
}


def usual_folder(data: str, request: Request) -> Path:
    """Where a fit goes that no folder is named for: to one that the same command has begun and not ended, or a new."""
    first = Path("runs/fit")
    for out in (first, *sorted(first.parent.glob(f"{first.name}-[0-9]*"))):
        if (out / ASKED).is_file() and not (out / MODEL).exists() and not _changes(out, data, request):
            return out
    return next_free(first, LEFT_BY_A_KILL)


def fit(data: str, request: Request, out: Path, console: Console) -> None:
    """Begin, or go on with, a fit in the folder `out`."""
    say = sayer(console)
    started = time.monotonic()
    if (out / MODEL).is_file():
        _check_request(out, data, request)
        say(f"{out} is finished; this was its verdict:")
        report.show(_read(out / VERDICT), console)
        return
    begun = (out / ASKED).is_file()
    if begun:
        _check_request(out, data, request)
        say(f"going on with {out}")
    else:
        claim(out, LEFT_BY_A_KILL)
    try:
        _work(data, request, out, console, begun, started)
    except Stopped as stopped:
        raise Stopped(stopped.what, stopped.signal, "the same metapl fit command goes on from there") from None


def _work(data: str, request: Request, out: Path, console: Console, begun: bool, started: float) -> None:
    say = sayer(console)
    if not begun:  # what is refused leaves an empty folder behind
        if request.init_from:
            start_from.recognise(request.init_from)
        found = listing.examine(listing.read(data, ()), console)
        listed = listing.divided(found, request.allow_duplicates, request.seed)
        _put(out / ASKED, {"format": FORMAT, "data": _place(data), **_comparable(request)})
    with locked(out):
        if not (out / DATA).is_file():
            if begun:
                found = listing.examine(listing.read(data, ()), console)
                listed = listing.divided(found, request.allow_duplicates, request.seed)
            _write_data(out, found, listed)
        facts = _read(out / DATA)
        for remark in facts["remarks"]:
            say(remark)
        plan = _plan(out, request, facts, time.monotonic() - started)
        for reason in plan.reasons:
            say(f"chosen: {reason}")
        base = _base(out, request, plan.choice.size, plan.choice.network)
        names = [SUPERVISED, MPL] if facts["unlabeled"] else [SUPERVISED]
        if MPL not in names:
            say("there are no unlabelled pictures: only the supervised model is trained")
        _train(out / SUPERVISED, recipe.supervised(plan.choice, base, recipe.BASELINE * plan.choice.steps), console)
        if MPL in names:
            start = str((out / SUPERVISED / "weights.safetensors").absolute())
            _train(out / MPL, recipe.mpl(plan.choice, dataclasses.replace(base, init_from=start)), console)
        _conclude(out, base.data, request.seed, facts, plan, names)
    report.show(_read(out / VERDICT), console)
    say(f"wrote {out}: verdict.md is to be read, metapl predict {out} PICTURES asks the model")


def _train(out: Path, config: Config, console: Console) -> None:
    """Take a run to its end, wherever it is."""
    say = sayer(console)
    if (out / run_folder.RESULT).is_file():
        say(f"{out.name} is trained already")
    elif (out / run_folder.CONFIG).is_file():
        with run_folder.where_it_began(out.absolute()):
            resume_run(out.absolute(), None, console)
    else:
        out.mkdir(exist_ok=True)  # of a start that came to nothing, there may be a lock in it
        start_run(config, 1, 1, (), out, console)


def _plan(out: Path, request: Request, facts: dict[str, Any], spent_s: float) -> Plan:
    """Choose, or take what an earlier session has chosen."""
    if (out / PLAN).is_file():
        noted = _read(out / PLAN)
        choice = Choice(**noted["choice"] | {"prior": tuple(noted["choice"]["prior"])})
        return Plan(choice, tuple(noted["reasons"]))
    labels = np.repeat(np.arange(len(facts["train_counts"])), facts["train_counts"]).astype(np.int32)
    about = Facts(facts["side"], labels, len(facts["class_names"]), facts["unlabeled"])
    fixed = "given" if request.init_from else ""

    def baseline(choice: Choice) -> Config:
        return recipe.supervised(choice, _base(out, request, choice.size, choice.network), choice.steps)

    plan = choose.plan(request, about, choose.measuring(baseline, out), spent_s, fixed)
    _put(out / PLAN, {"choice": dataclasses.asdict(plan.choice), "reasons": plan.reasons})
    return plan


def _base(out: Path, request: Request, size: int, network: str) -> Config:
    source = listing.settings(out, size)
    if source is None:
        raise ConfigError(f"{out} has lost its list of pictures; begin again in another folder")
    model: ModelConfig
    if request.init_from:
        model, of_imagenet = start_from.recognise(request.init_from)
    else:
        model, of_imagenet = recipe.model(network, size), False
    start = str(Path(request.init_from).absolute()) if request.init_from else ""
    return recipe.base(source, model, request.seed, request.mirror, start, of_imagenet)


def _write_data(out: Path, found: Audit, listed: listing.Listed) -> None:
    with explaining_disk_errors(out, GOES_ON):
        audit.write(found, out)
    listing.write(listed, out)
    sides: dict[int, int] = {}
    for role in listing.TRAINING:
        if role in found.surveys:
            for (height, width), count in found.surveys[role].sizes.items():
                sides[min(height, width)] = sides.get(min(height, width), 0) + count
    counts = np.bincount(listed.parts["train"].labels, minlength=len(listed.class_names))
    _put(
        out / DATA,
        {
            "side": int(np.median(np.repeat(list(sides), list(sides.values())))),
            "class_names": listed.class_names,
            "train_counts": counts.tolist(),
            **{part: len(listed.parts[part].images) for part in ("val", "test", "unlabeled")},
            "measured_on": MEASURED_ON[listed.measured_on],
            "remarks": listed.remarks,
            "leaks": listed.leaks,
        },
    )


def _conclude(out: Path, source: Any, seed: int, facts: dict[str, Any], plan: Plan, names: list[str]) -> None:
    """Ask both models, and write what that amounts to; model.json comes last."""
    assert isinstance(source, PictureConfig)
    asked = answers.asked(source, seed, bool(facts["unlabeled"]))
    found = {name: answers.answers(out / name, asked) for name in names}
    dataset = asked.dataset
    about = verdict.Pictures(
        np.zeros(0, np.int32) if dataset.val_labels is None else dataset.val_labels,
        dataset.test_labels,
        asked.test_names,
        asked.unlabeled_names,
        dataset.class_names,
        np.bincount(dataset.labels, minlength=len(dataset.class_names)),
    )
    result = verdict.verdict(found, about)
    result |= {"measured_on": facts["measured_on"], "remarks": facts["remarks"], "chosen": plan.reasons}
    if facts["leaks"]:
        result["warnings"].append(
            "Labelled pictures are in val or test, too: the accuracies are better than the truth."
        )
    if plan.choice.steps < FEW_STEPS and names[-1] == MPL:
        result["warnings"].append(
            f"Both models had {plan.choice.steps} steps only, and what learns from unlabelled pictures needs more of "
            "them than what does not: a larger --budget is a fairer comparison."
        )
    model = result["models"][result["recommended"]]
    with explaining_disk_errors(out, GOES_ON):
        write_atomically(out / "least_sure.csv", report.rows_as_csv(result["least_sure"], first=("label",)))
        write_atomically(out / "label_next.csv", report.rows_as_csv(result["label_next"]))
        write_atomically(out / "verdict.md", report.markdown(result).encode())
    _put(out / VERDICT, result)
    _put(out / MODEL, {"format": FORMAT, "run": result["recommended"], "temperature": model["temperature"]})


def _place(data: str) -> str:
    return str(Path(data).expanduser().absolute())


def _comparable(request: Request) -> dict[str, Any]:
    start = str(Path(request.init_from).absolute()) if request.init_from else ""
    return to_dict(dataclasses.replace(request, init_from=start))


def _check_request(out: Path, data: str, request: Request) -> None:
    """The same command goes on; another one wants another folder."""
    if changed := _changes(out, data, request):
        raise ConfigError(
            f"--out {out} was begun with other settings ({'; '.join(changed)}): give the same ones to go on with it, "
            "or choose another folder"
        )


def _changes(out: Path, data: str, request: Request) -> list[str]:
    noted, now = _read(out / ASKED), {"data": _place(data), **_comparable(request)}
    return [f"{name} was {noted.get(name)!r}, is {value!r}" for name, value in now.items() if noted.get(name) != value]


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; begin again in another folder") from None


def _put(path: Path, value: Any) -> None:
    with explaining_disk_errors(path.parent, GOES_ON):
        write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
