"""MLflow with its own library, into a file; nothing is sent."""

import json

import numpy as np
import pytest

from metapl.runs.sinks.mlflow import MLflow, flat
from metapl.runs.sinks.series import Session

SETTINGS = {"seed": 0, "stages": [{"steps": 5, "method": {"name": "mpl"}}], "sizes": [1, 2], "mlflow": True}


def test_settings_get_paths():
    assert dict(flat(SETTINGS)) == {
        "seed": "0",
        "stages.0.steps": "5",
        "stages.0.method.name": "mpl",
        "sizes": "[1, 2]",
        "mlflow": "True",
    }


@pytest.mark.filterwarnings("default")  # whatever its version warns of is not ours
def test_it_writes_a_file_and_goes_on_in_the_same_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    out.mkdir()
    for done in (0, 500):
        sink = MLflow(Session(out, SETTINGS, [3, 4], False, done))
        sink.write(
            done + 500, {"loss": np.array([0.5, 1.5], np.float32), "test_nll": np.array([np.nan, 1], np.float32)}
        )
        sink.flush()
        sink.close(failed=done == 500)
    (kept,) = json.loads((out / "mlflow-ids.json").read_text()).values()
    client = mlflow.MlflowClient(f"sqlite:///{out / 'mlflow.db'}")
    (experiment,) = [found for found in client.search_experiments() if found.name == "metapl"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_id, run.info.status, run.info.run_name) == (kept, "FAILED", "run, mean-of-seeds-3-to-4")
    assert run.data.params["stages.0.method.name"] == "mpl"
    points = [(point.step, point.value) for point in client.get_metric_history(kept, "training/loss")]
    assert points == [(500, 1.0), (1000, 1.0)]
    assert client.get_metric_history(kept, "seed-4/training/loss")[0].value == 1.5
    assert {path.name for path in tmp_path.iterdir()} == {"run"}  # nothing beside the run's folder
    assert {path.name for path in out.iterdir()} == {"mlflow.db", "mlflow-ids.json"}
