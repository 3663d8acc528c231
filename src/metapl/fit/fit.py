"""From pictures to a verdict, in one session or several: a session continues where the one before stopped.

fit.json        the request                             (written first: it marks the folder of a fit)
audit.json      what the data contain, and their problems
pictures.csv    every picture's role (pictures.npz for arrays); then data.json: facts about the pictures
plan.json       what was chosen, and why
supervised/     the baseline, a run like any other
mpl/            Meta Pseudo Labels, a run like any other
verdict.json    and verdict.md, least_sure.csv, label_next.csv
model.json      the recommended run and its temperature (written last: it marks a finished fit)
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from metapl import recipe
from metapl.config import Config
from metapl.data.audit import audit
from metapl.data.audit.audit import Audit
from metapl.fit import choose, listing, probe, report
from metapl.fit.choose import FitPlan
from metapl.fit.conclude import conclude
from metapl.fit.examine import examine, read_roles
from metapl.fit.folder import (
    DATA,
    LEFT_BY_A_KILL,
    MODEL,
    PLAN,
    REQUEST,
    VERDICT,
    check_request,
    read_json,
    summary,
    write_json,
    write_request,
)
from metapl.fit.listing import GOES_ON, Listing
from metapl.fit.request import Request
from metapl.fit.verdict import MPL, SUPERVISED
from metapl.recipe import Choice
from metapl.runs import run_folder
from metapl.runs.resume import resume_run
from metapl.runs.start import start_run
from metapl.schema import ConfigError
from metapl.start_from.find import absolute
from metapl.start_from.recognise import Pretrained, recognise
from metapl.system.disk import explaining_disk_errors
from metapl.system.folders import claim
from metapl.system.lock import locked
from metapl.system.signals import Stopped
from metapl.system.terminal import sayer

MEASURED_ON = {
    "test part": "the test part of the data, which was not used for training or calibration",
    "val part": "two thirds of the val part, held out from training and calibration; there is no test part",
    "labelled pictures": "a fifth of the labelled pictures, held out from training and calibration, because there is "
    "no test part",
}


def fit(data: str, request: Request, out: Path, console: Console) -> None:
    """Begin or continue a fit in the folder `out`."""
    say = sayer(console)
    started = time.monotonic()
    if (out / MODEL).is_file():
        check_request(out, data, request)
        say(f"{out} is finished; this was its verdict:")
        report.show(read_json(out / VERDICT), console)
        return
    begun = (out / REQUEST).is_file()
    if begun:
        check_request(out, data, request)
        say(f"continuing {out}")
    else:
        claim(out, LEFT_BY_A_KILL)
    try:
        _fit(data, request, out, console, begun, started)
    except Stopped as stopped:
        raise Stopped(stopped.what, stopped.signal, "the same metapl fit command continues it") from None


def _fit(data: str, request: Request, out: Path, console: Console, begun: bool, started: float) -> None:
    say = sayer(console)
    examined = None
    if not begun:  # refuse bad data before writing anything: the folder stays empty then
        if request.init_from:
            _recognised(request.init_from)
        examined = _examine(data, request, console)
        write_request(out, data, request)
    with locked(out):
        if not (out / DATA).is_file():
            _write_data(out, *(examined or _examine(data, request, console)))
        facts = read_json(out / DATA)
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
        conclude(out, base.data, request.seed, facts, plan, names)
    report.show(read_json(out / VERDICT), console)
    say(f"wrote {out}: read verdict.md; metapl predict {out} PICTURES uses the model")


def _examine(data: str, request: Request, console: Console) -> tuple[Audit, Listing]:
    result = examine(read_roles(data, ()), console)
    return result, listing.make_listing(result, request.allow_duplicates, request.seed)


def _train(out: Path, config: Config, console: Console) -> None:
    """Start a run, or resume it, and train to its end; a finished run stays as it is."""
    say = sayer(console)
    if (out / run_folder.RESULT).is_file():
        say(f"{out.name} is trained already")
    elif (out / run_folder.CONFIG).is_file():
        with run_folder.where_it_began(out.absolute()):
            resume_run(out.absolute(), None, console)
    else:
        out.mkdir(exist_ok=True)  # a start that failed may have left a lock in it
        start_run(config, 1, 1, (), out, console)


def _plan(out: Path, request: Request, facts: dict[str, Any], spent_s: float) -> FitPlan:
    """Choose, or read what an earlier session chose."""
    if (out / PLAN).is_file():
        stored = read_json(out / PLAN)
        choice = Choice(**stored["choice"] | {"prior": tuple(stored["choice"]["prior"])})
        return FitPlan(choice, tuple(stored["reasons"]))
    fixed = "given" if request.init_from else ""

    def baseline(choice: Choice) -> Config:
        return recipe.supervised(choice, _base(out, request, choice.size, choice.network), choice.steps)

    plan = choose.plan(request, summary(facts), probe.measuring(baseline, out), spent_s, fixed)
    write_json(out / PLAN, {"choice": dataclasses.asdict(plan.choice), "reasons": plan.reasons})
    return plan


def _base(out: Path, request: Request, size: int, network: str) -> Config:
    """The settings that both runs share."""
    source = listing.settings(out, size)
    if source is None:
        raise ConfigError(f"{out} has no {listing.LIST} and no {listing.ARRAYS}; begin again in another folder")
    if request.init_from:
        found = _recognised(request.init_from)
        views = recipe.augmentation(size, request.mirror, found.mean, found.std)
        return recipe.base(source, found.model, request.seed, views, absolute(request.init_from))
    return recipe.base(source, recipe.model(network, size), request.seed, recipe.augmentation(size, request.mirror))


def _recognised(init_from: str) -> Pretrained:
    try:
        return recognise(init_from)
    except ConfigError as error:
        raise ConfigError(f"--init-from: {error}") from None


def _write_data(out: Path, examined: Audit, listed: Listing) -> None:
    with explaining_disk_errors(out, GOES_ON):
        audit.write(examined, out)
    listing.write(listed, out)
    counts = np.bincount(listed.roles["labeled"].labels, minlength=len(listed.class_names))
    write_json(
        out / DATA,
        {
            "side": _median_side(examined),
            "class_names": listed.class_names,
            "labeled_counts": counts.tolist(),
            "val": len(listed.roles["val"].images),
            "test": len(listed.roles["test"].images),
            "unlabeled": len(listed.roles["unlabeled"].images),
            "measured_on": MEASURED_ON[listed.measured_on],
            "remarks": listed.remarks,
            "leaks": listed.leaks,
        },
    )


def _median_side(examined: Audit) -> int:
    """The median of the shorter sides of the labelled and unlabelled pictures."""
    sides: dict[int, int] = {}
    for role in ("labeled", "unlabeled"):
        if role in examined.surveys:
            for (height, width), count in examined.surveys[role].sizes.items():
                sides[min(height, width)] = sides.get(min(height, width), 0) + count
    return int(np.median(np.repeat(list(sides), list(sides.values()))))
