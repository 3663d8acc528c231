"""Weights & Biases: one of its runs for the seeds that train at once, with the mean and each seed's curves.

Its files go to RUN/wandb; with WANDB_MODE=offline nothing is sent, and no login is needed. The id is kept in the run's
folder, so that a resumed run continues the same W&B run. Curves are drawn over our own count of steps: W&B's count must
not go back, and ours does when a run is resumed.
"""

import secrets

import numpy as np

from metapl.runs.sinks.series import Session, kept_id, mean_name, series
from metapl.types import Numbers


class WandB:
    """One of W&B's runs."""

    def __init__(self, session: Session) -> None:
        import wandb

        self._seeds = session.seeds
        name = session.folder.resolve().name
        key = mean_name(session.seeds) if len(session.seeds) > 1 else f"seed-{session.seeds[0]}"
        self._run = wandb.init(
            project=wandb.setup().settings.project or "metapl",
            dir=str(session.folder),
            id=kept_id(session.folder / "wandb-ids.json", key, lambda: secrets.token_hex(4)),
            resume="allow",
            name=name if session.alone else f"{name}, {key}",
            group=name,
            config=dict(session.settings),
            settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, numbers: Numbers) -> None:
        row: dict[str, float] = {"step": step}
        for name, values in series(numbers).items():
            row[name] = float(np.mean(values))
            if len(self._seeds) > 1:
                row |= {f"seed-{seed}/{name}": float(value) for seed, value in zip(self._seeds, values, strict=True)}
        self._run.log(row)

    def flush(self) -> None:
        """Do nothing: W&B's own process has the numbers already."""

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))
