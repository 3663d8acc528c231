"""Features by a network that a rung has trained, kept beside its run: computing them may take minutes.

They are rounded to float16, as those of the frozen encoder are, whether they are computed or read again.
"""

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metapl.data.sources.dataset import Role
from metapl.data.splits.select import take
from metapl.evaluate.predictor import Predictor
from metapl.features.stored_views import Encode
from metapl.fit import network
from metapl.fit.climb import Check, Climb, listening
from metapl.fit.encoded import Encoded, Rows, Values
from metapl.fit.folder import explaining_damage
from metapl.fit.listing import GOES_ON
from metapl.system.disk import explaining_disk_errors, write_atomically

AT_ONCE = 256  # pictures between two looks for a signal
FILE, TEST_FILE = "features.npz", "test-features.npz"

Compute = Callable[[Role, Rows | slice, Check], Values]


class RoleFeatures(NamedTuple):
    """Features of pictures by role."""

    labeled: Values
    val: Values
    test: Values
    unlabeled: Values


def of_run(climb: Climb, run: str, model: Predictor, unlabeled: Rows, test: bool = True) -> RoleFeatures:
    """The model's features of all labelled, val and test pictures, and of these rows of the unlabelled ones."""
    compute = partial(_features, model, climb.features)
    return RoleFeatures(**_kept(climb, run, FILE, compute, _rows(unlabeled, test)))


def of_encoder(climb: Climb, run: str, encode: Encode, unlabeled: Rows) -> RoleFeatures:
    """The same by an encoder that was made of the run."""
    compute = partial(_encoded, encode, climb.features)
    return RoleFeatures(**_kept(climb, run, FILE, compute, _rows(unlabeled)))


def _rows(unlabeled: Rows, test: bool = True) -> dict[Role, Rows | slice]:
    return {
        "labeled": slice(None),
        "val": slice(None),
        "test": slice(None) if test else slice(0),
        "unlabeled": unlabeled,
    }


def of_test(climb: Climb, run: str, model: Predictor) -> Values:
    """The model's features of all test pictures, for a run whose features were asked for without them."""
    return _kept(climb, run, TEST_FILE, partial(_features, model, climb.features), {"test": slice(None)})["test"]


def _kept(climb: Climb, run: str, name: str, compute: Compute, rows: Mapping[Role, Rows | slice]) -> dict[Role, Values]:
    """Read features of these rows by role, or compute and write them."""
    path = climb.out / run / name
    if not path.is_file():
        with listening(climb) as stop:
            check = partial(stop.check, f"features by {run}", GOES_ON)
            computed = {role: compute(role, own, check) for role, own in rows.items()}
        file = io.BytesIO()
        rounded: dict[str, Any] = {role: values.astype(np.float16) for role, values in computed.items()}
        np.savez(file, **rounded)
        with explaining_disk_errors(path.parent, GOES_ON):
            write_atomically(path, file.getvalue())
    with explaining_damage(path), path.open("rb") as file_, np.load(file_, allow_pickle=False) as arrays:
        return {role: arrays[role].astype(np.float32) for role in rows}


def _features(model: Predictor, some: Encoded, role: Role, rows: Rows | slice, check: Check) -> Values:
    images = some.prepared.pictures.images(role)
    return network.features(model, take(images, np.arange(len(images))[rows]), check)


def _encoded(encode: Encode, some: Encoded, role: Role, rows: Rows | slice, check: Check) -> Values:
    """By an encoder that takes pictures in the fit's size."""
    images = some.prepared.pictures.images(role)
    made = [np.zeros((0, encode.width(())), np.float32)]
    for batch in network.batches(take(images, np.arange(len(images))[rows]), some.settings.size, AT_ONCE):
        check()
        made.append(encode(np.asarray(batch, np.uint8)))
    return np.concatenate(made)


def frozen(some: Encoded) -> RoleFeatures:
    """The frozen encoder's features; of the unlabelled pictures, of those that are judged."""
    return RoleFeatures(some.labeled, some.val, some.test, some.unlabeled[some.judged])
