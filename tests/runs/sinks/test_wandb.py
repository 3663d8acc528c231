"""Weights & Biases, offline: no network, no login."""

import json

import numpy as np
import pytest

from metapl.runs.sinks.series import Session, kept_id
from metapl.runs.sinks.wandb import WandB


def test_an_id_is_kept_for_each_group_of_seeds(tmp_path):
    path = tmp_path / "wandb-ids.json"
    made = iter("abc")
    one, other = (kept_id(path, key, lambda: next(made)) for key in ("seed-0", "seed-1"))
    assert (one, other) == ("a", "b")
    assert kept_id(path, "seed-0", lambda: next(made)) == one
    assert json.loads(path.read_text()) == {"seed-0": one, "seed-1": other}


@pytest.mark.filterwarnings("default")  # whatever its version warns of is not ours
def test_it_writes_offline_and_goes_on_under_the_same_id(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs metapl[wandb], which is too large for every test machine")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for done in (0, 500):
        sink = WandB(Session(tmp_path, {"seed": 0}, [0, 1], False, done))
        sink.write(done + 500, {"loss": np.array([0.5, 1.5], np.float32)})
        sink.flush()
        sink.close(failed=False)
    runs = sorted(path for path in (tmp_path / "wandb").iterdir() if path.name.startswith("offline-run-"))
    assert len(runs) == 2
    (kept,) = json.loads((tmp_path / "wandb-ids.json").read_text()).values()
    assert all(path.name.endswith(kept) and list(path.glob("*.wandb")) for path in runs)
