"""Other receivers of a run's numbers: TensorBoard, Weights & Biases and MLflow, each an optional extra.

A sink that fails never ends a run: it warns once and is dropped.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from metapl.runs.sinks import mlflow, tensorboard, wandb
from metapl.runs.sinks.series import Session
from metapl.schema import ConfigError
from metapl.types import Numbers

FLUSH_EVERY_S = 10.0

Say = Callable[[str], None]


class Sink(Protocol):
    """Takes numbers; `step` counts over all stages."""

    def write(self, step: int, numbers: Numbers) -> None: ...

    def flush(self) -> None: ...

    def close(self, failed: bool) -> None: ...


class Kind(NamedTuple):
    """A kind of sink."""

    title: str
    package: str
    open: Callable[[Session], Sink]


SINKS: dict[str, Kind] = {  # by the name of the setting, which is also the name of the extra
    "tensorboard": Kind("TensorBoard", "tensorboardX", tensorboard.TensorBoard),
    "wandb": Kind("Weights & Biases", "wandb", wandb.WandB),
    "mlflow": Kind("MLflow", "mlflow", mlflow.MLflow),
}


def require(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError if a sink in the settings is not installed; call it before a run starts."""
    for name, kind in SINKS.items():
        if settings.get(name) and not _installed(kind.package):
            raise ConfigError(f"--{name} needs {kind.package}, which is not installed: pip install 'metapl[{name}]'")


def _installed(package: str) -> bool:
    """Whether the package is installed; a folder of that name, such as W&B's own ./wandb, does not count."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


class Sinks:
    """The sinks of a run; called with every report."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._open: dict[str, Sink] = {}
        self._flushed = time.monotonic()

    def open(self, session: Session) -> None:
        """Open the sinks in the settings; a failure ends a run only if it has not begun yet."""
        for name, kind in SINKS.items():
            if session.settings.get(name):
                try:
                    self._open[name] = kind.open(session)
                except Exception as error:
                    if not session.done:
                        raise ConfigError(f"{kind.title} cannot start: {_reason(error)}") from error
                    self._say(f"{kind.title} cannot continue ({_reason(error)}); the run continues without it")

    def __call__(self, stage: int, step: int, numbers: Numbers) -> None:
        """Write a report."""
        del stage  # `step` counts over all stages
        self._each(lambda sink: sink.write(step, numbers))
        if time.monotonic() - self._flushed >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write everything out, so that nothing is lost if the process is killed; called before each checkpoint."""
        self._flushed = time.monotonic()
        self._each(lambda sink: sink.flush())

    def close(self, failed: bool) -> None:
        """Close all sinks."""
        self._each(lambda sink: sink.close(failed))
        self._open = {}

    def _each(self, work: Callable[[Sink], None]) -> None:
        for name, sink in list(self._open.items()):
            try:
                work(sink)
            except Exception as error:  # no error of a sink may end the training
                del self._open[name]
                self._say(f"{SINKS[name].title} has failed ({_reason(error)}); the run continues without it")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def opened(session: Session, say: Say) -> Iterator[Sinks]:
    """Open the sinks in the settings while the block runs."""
    sinks = Sinks(say)
    try:
        sinks.open(session)
        yield sinks
    except BaseException:
        sinks.close(failed=True)
        raise
    sinks.close(failed=False)
