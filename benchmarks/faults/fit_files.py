"""The files of a fit, to be damaged. The same fit again, a fit after it and the page for labels read them."""

import io
import json
from pathlib import Path

import numpy as np
from rich.console import Console

from faults.http_requests import write_fit
from metapl.fit import after, clock, leave_out_foreign, rung
from metapl.fit import fit as fits
from metapl.fit.encoder import Pictures
from metapl.fit.folder import check_request, is_finished, write_request
from metapl.fit.plan import Plan
from metapl.fit.request import Request
from metapl.fit.rung import About, Predictions, Rung
from metapl.web.label import queue

FIT = "fit"  # the folder whose files are damaged
NAMES = ("fit.json", "data.json", "plan.json", "sessions.json", "ladder.json", "verdict.json", "foreign.json",
         "pictures.csv", "labels.csv", "linear/rung.json", "linear/judged.npz")  # fmt: skip


def seeds(name: str, place: Path) -> list[bytes]:
    """Write the folder of a finished fit, and return the file that is to be damaged."""
    if not (place / FIT).exists():
        write_fit(place)
        _finish(place)
    return [(place / FIT / name).read_bytes()]


def _finish(place: Path) -> None:
    out = place / FIT
    difference = {"difference": 0.0, "low": -0.1, "high": 0.1, "better": 0, "worse": 0, "p": 1.0}
    row = {"name": "linear", "title": "logistic regression", "accuracy": 0.5, "low": 0.4, "high": 0.6,
           "validation": 0.5, "over_linear": None, "calibration_error_calibrated": 0.1, "seconds": 1.5}  # fmt: skip
    verdict = json.loads((out / "verdict.json").read_text()) | {
        "ladder": [row], "recommended": "linear", "title": row["title"], "why": "it is the only one", "pictures": 8,
        "measured_on": "the test part", "warnings": [], "advice": ["Label more."], "over_linear": None, "labels": 2,
        "difference": difference, "unlabeled": "neutral", "finished": True, "budget": "30m", "history": [],
    }  # fmt: skip
    (out / "verdict.json").write_text(json.dumps(verdict, indent=1))
    write_request(out, str(place / "pictures"), Request())
    clock.begin_session(out, 60.0)
    some = np.zeros((3, 2), np.float32)
    rung.write(out, Rung(About("linear", "logistic regression", "linear", False), 1.5, Predictions(some, some, some)))
    rung.note_order(out, ["linear"])
    leave_out_foreign.write(out, leave_out_foreign.Found([4], [2], [0], [0.25], [1]))
    Plan(out).decide("features", {"name": "features", "source": "pictures.csv", "size": 8})
    (out / "labels.csv").write_text(f"path,label,decision\n{place / 'pictures' / '4.png'},cat,label\n")


def read(name: str, path: Path) -> None:
    """Do what later commands do with the folder, as far as they read it and do not train."""
    out = path.parents[name.count("/")]
    data, request = str(out.parent / "pictures"), Request()
    if is_finished(out, request):
        fits.fit(data, request, out, Console(file=io.StringIO(), width=200))
    else:
        check_request(out, data, request)
    if name == clock.SESSIONS:  # it grows each time
        clock.begin_session(out, 60.0)
    Plan(out).features(out, request, Pictures(1, 1, 8))
    for finished in rung.climbed(out):
        rung.read(out, finished)
    leave_out_foreign.read(out)
    after.read(out)
    queue.load(out, None)
