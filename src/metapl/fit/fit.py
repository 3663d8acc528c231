"""From pictures to a verdict, in one session or several: a session continues where the one before stopped.

fit.json        the request                             (written first: it marks the folder of a fit)
audit.json      what the data contain, and their problems
pictures.csv    every picture's role (pictures.npz for arrays); then data.json: facts about the pictures
plan.json       what was chosen by the clock
linear/ …       the rungs (ladder.py), each a run like any other; ladder.json lists the finished ones
model.json      the best rung so far and its temperature
verdict.json    and verdict.md, report.html, least_sure.csv, label_next.csv; it says whether the fit is finished
"""

import signal
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from rich.console import Console

from metapl.data.audit import audit
from metapl.data.audit.audit import Audit
from metapl.fit import after, clock, ladder, listing, network, report, rung
from metapl.fit.climb import Climb
from metapl.fit.conclude import conclude
from metapl.fit.duration import seconds
from metapl.fit.examine import examine, read_roles, remark_on_other_files, remark_on_unread
from metapl.fit.folder import (
    DATA,
    LEFT_BY_A_KILL,
    REQUEST,
    VERDICT,
    check_request,
    explaining_damage,
    is_finished,
    is_old,
    read_json,
    write_json,
    write_request,
)
from metapl.fit.listing import GOES_ON, Listing
from metapl.fit.page import PAGE
from metapl.fit.plan import Plan
from metapl.fit.request import Request
from metapl.system.disk import explaining_disk_errors
from metapl.system.folders import claim
from metapl.system.lock import locked
from metapl.system.signals import Stopped
from metapl.system.terminal import sayer

FACTS = ("side", "class_names", "labeled_counts", "val", "test", "unlabeled", "measured_on", "remarks", "leaks")
MEASURED_ON = {
    "test part": "the test part of the data, which was not used for training, choice or calibration",
    "val part": "two thirds of the val part, held out from training, choice and calibration; there is no test part",
    "labelled pictures": "a fifth of the labelled pictures, held out from training, choice and calibration, because "
    "there is no test part",
}


def fit(data: str, request: Request, out: Path, console: Console) -> None:
    """Begin or continue a fit in the folder `out`."""
    say, started = sayer(console), monotonic()
    begun = (out / REQUEST).is_file()
    if begun and is_finished(out, request):
        _show_finished(data, request, out, console)
        return
    if begun:
        check_request(out, data, request)
        say(f"continuing {out}")
    else:
        claim(out, LEFT_BY_A_KILL)
    try:
        _fit(data, request, out, console, begun, started)
    except Stopped as stopped:
        kept = f"{out / PAGE} has the verdict on what is done so far, and " if (out / VERDICT).is_file() else ""
        raise Stopped(stopped.what, stopped.signal, f"{kept}the same metapl fit command continues it") from None


def _show_finished(data: str, request: Request, out: Path, console: Console) -> None:
    say = sayer(console)
    if is_old(out):  # a fit of 0.1.0 or 0.2.0: its verdict has other entries
        say(f"{out} is finished, by an older version of metapl; this was its verdict:")
        say((out / "verdict.md").read_text("utf-8"))
        return
    check_request(out, data, request)
    say(f"{out} is finished; this was its verdict:")
    with explaining_damage(out / VERDICT):
        report.show(read_json(out / VERDICT), console)


def _fit(data: str, request: Request, out: Path, console: Console, begun: bool, started: float) -> None:
    say = sayer(console)
    examined = None
    if not begun:  # refuse bad data before writing anything: the folder stays empty then
        if request.init_from:
            network.recognised(request.init_from)
        examined = _examine(data, request, console)
        write_request(out, data, request)
    with locked(out):
        time = clock.begin_session(out, seconds(request.budget), monotonic() - started)
        if begun:
            write_request(out, data, request)  # the budget may be larger than before
        if not (out / DATA).is_file():
            _write_data(out, *(examined or _examine(data, request, console)))
        facts = read_json(out / DATA, *FACTS)
        for remark in facts["remarks"]:
            say(remark)
        climb = Climb(out, request, facts, time, console, Plan(out))
        try:
            ladder.climb(climb)
        except (Stopped, KeyboardInterrupt) as asked:  # the latter between two steps that listen to signals
            if rung.climbed(out) and climb.encoded is not None:
                report.show(conclude(climb, finished=False), console)
            if isinstance(asked, KeyboardInterrupt):
                raise Stopped("stopped by SIGINT", signal.SIGINT, GOES_ON) from None
            raise
        report.show(conclude(climb, finished=True), console)
    say(f"wrote {out}: open {out / PAGE}; metapl predict {out} PICTURES uses the model")


def _examine(data: str, request: Request, console: Console) -> tuple[Audit, Listing, list[dict[str, Any]]]:
    """Read and check the pictures, and give each its role; with --after, also return the fits so far."""
    source = read_roles(data, ())
    remarks: tuple[str, ...] = ()
    held_out: frozenset[str] = frozenset()
    history: list[dict[str, Any]] = []
    if request.after:
        before = after.read(Path(request.after))
        source, remark = after.with_labels(source, before)
        remarks, held_out, history = (remark,), before.held_out, before.history
    result = examine(source, console)
    listed = listing.make_listing(result, request.allow_duplicates, request.seed, held_out)
    remarks += (*remark_on_other_files(data), *remark_on_unread(source, result))
    return result, listed._replace(remarks=remarks + listed.remarks), history


def _write_data(out: Path, examined: Audit, listed: Listing, history: list[dict[str, Any]]) -> None:
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
            "history": history,
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
