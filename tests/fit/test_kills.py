"""A fit that is killed between two of its files: nothing that is finished is lost, and nothing unfinished looks so."""

from types import SimpleNamespace

import numpy as np
import pytest

from metapl.fit import conclude, ladder
from metapl.fit import rung as rungs
from metapl.fit.rung import About, Predictions, Rung

LABELS = np.arange(4).astype(np.int32) % 2
LOGITS = np.eye(2, dtype=np.float32)[LABELS]
RUNG = Rung(About("linear", "logistic regression", "linear", False), 1.0, Predictions(LOGITS, LOGITS, LOGITS[:0]))


class KilledError(Exception):
    """Stands for SIGKILL."""


def killed(*_):
    raise KilledError


def climb_in(out):
    features = SimpleNamespace(validation_labels=LABELS, test_labels=LABELS)
    return SimpleNamespace(
        out=out, features=features, say=lambda text: None, rungs=lambda: [RUNG], request=SimpleNamespace(budget="1m")
    )


@pytest.mark.parametrize("moment", ["note_order", "write"])
def test_a_rung_is_in_the_list_as_soon_as_it_is_finished(tmp_path, monkeypatch, moment):
    with monkeypatch.context() as patch:
        patch.setattr(rungs, moment, killed)
        with pytest.raises(KilledError):
            ladder.complete(climb_in(tmp_path), RUNG)
    assert rungs.climbed(tmp_path) == (["linear"] if rungs.finished(tmp_path, "linear") else [])
    ladder.complete(climb_in(tmp_path), RUNG)
    assert rungs.climbed(tmp_path) == ["linear"]


def test_the_verdict_that_says_finished_is_written_last(tmp_path, monkeypatch):
    monkeypatch.setattr(conclude.report, "markdown", lambda result: "")
    monkeypatch.setattr(conclude.page, "page", lambda result, features: "")
    written = []
    monkeypatch.setattr(conclude, "write_json", lambda path, value: written.append(path.name))
    rows = dict.fromkeys(("least_sure", "label_next", "label_errors", "foreign"), ())
    ladder_rows = [{"name": "linear", "temperature": 1.0}]
    conclude.write(climb_in(tmp_path), {**rows, "recommended": "linear", "ladder": ladder_rows})
    assert written == ["model.json", "verdict.json"]
