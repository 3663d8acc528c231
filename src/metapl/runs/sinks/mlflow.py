"""MLflow: one of its runs for the seeds that train at once, with the mean and each seed's curves.

MLFLOW_TRACKING_URI says where its runs are; without it, they are in RUN/mlflow.db, and nothing is sent anywhere. The id
is kept in the run's folder, so that a resumed run continues the same MLflow run. Points after the last checkpoint of a
killed session are then there twice.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from metapl.runs.sinks.series import Session, kept_id, mean_name, series
from metapl.types import Numbers

_MOST_PARAMS, _LONGEST = 100, 6000  # MLflow takes so many at a time, of so many characters
_ENVIRONMENT = {  # MLflow's own defaults send usage data, and let a server that is down stop the training for minutes
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class MLflow:
    """One of MLflow's runs."""

    def __init__(self, session: Session) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._seeds, self._metric = session.seeds, Metric
        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(session.folder / 'mlflow.db').absolute()}"
        self._client: Any = MlflowClient(place)
        name = session.folder.resolve().name
        key = mean_name(session.seeds) if len(session.seeds) > 1 else f"seed-{session.seeds[0]}"
        title = name if session.alone else f"{name}, {key}"
        self._run = kept_id(session.folder / "mlflow-ids.json", key, lambda: self._create(title))
        self._client.update_run(self._run, status="RUNNING")
        params = [Param(name, value[:_LONGEST]) for name, value in flat(session.settings)]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self._run, params=params[start : start + _MOST_PARAMS])

    def write(self, step: int, numbers: Numbers) -> None:
        now, row = int(1000 * time.time()), {}
        for name, values in series(numbers).items():
            row[name] = float(np.mean(values))
            if len(self._seeds) > 1:
                row |= {f"seed-{seed}/{name}": float(value) for seed, value in zip(self._seeds, values, strict=True)}
        self._client.log_batch(self._run, [self._metric(name, value, now, step) for name, value in row.items()])

    def flush(self) -> None:
        """Do nothing: every report is written at once."""

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")

    def _create(self, title: str) -> str:
        """Create a run in the experiment `metapl`, or in the one that MLFLOW_EXPERIMENT_NAME names; return its id."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "metapl"
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self._client.create_experiment(name)
        return str(self._client.create_run(experiment, run_name=title).info.run_id)


def flat(settings: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings with their paths: stages.0.method.name."""
    if isinstance(settings, Mapping):
        pairs = [(str(key), value) for key, value in settings.items()]
    elif isinstance(settings, list | tuple) and any(isinstance(value, Mapping) for value in settings):
        pairs = [(str(index), value) for index, value in enumerate(settings)]
    else:
        yield path, str(settings)
        return
    for key, value in pairs:
        yield from flat(value, f"{path}.{key}" if path else key)
