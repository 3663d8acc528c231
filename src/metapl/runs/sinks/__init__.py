"""Where else a run's numbers go: TensorBoard and Weights & Biases, each an extra that need not be installed.

What a sink cannot do never ends a run: it warns once and is left out.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from metapl.runs.sinks import tensorboard, wandb
from metapl.runs.sinks.series import Session
from metapl.schema import ConfigError
from metapl.types import Numbers

FLUSH_EVERY_S = 10.0

Tell = Callable[[str], None]


class Sink(Protocol):
    """Takes numbers; `step` counts over all stages."""

    def write(self, step: int, numbers: Numbers) -> None: ...

    def flush(self) -> None: ...

    def close(self, failed: bool) -> None: ...


class Kind(NamedTuple):
    """A sink as people know it."""

    title: str
    package: str
    open: Callable[[Session], Sink]


SINKS: dict[str, Kind] = {  # by setting, which is the extra, too
    "tensorboard": Kind("TensorBoard", "tensorboardX", tensorboard.TensorBoard),
    "wandb": Kind("Weights & Biases", "wandb", wandb.WandB),
}


def require(settings: Mapping[str, Any]) -> None:
    """Refuse a sink that is asked for and not installed: to be called before there is anything to lose."""
    for name, kind in SINKS.items():
        if settings.get(name) and not _installed(kind.package):
            raise ConfigError(f"--{name} needs {kind.package}, which is not installed: pip install 'metapl[{name}]'")


def _installed(package: str) -> bool:
    """A folder of that name, such as W&B's own ./wandb, is no package."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


class Sinks:
    """The sinks that a run has; called with every report."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._open: dict[str, Sink] = {}
        self._flushed = time.monotonic()

    def open(self, session: Session) -> None:
        """Open those that the settings ask for; one that fails ends a run that has not begun, and no other."""
        for name, kind in SINKS.items():
            if session.settings.get(name):
                try:
                    self._open[name] = kind.open(session)
                except Exception as error:
                    if not session.done:
                        raise ConfigError(f"{kind.title} cannot begin: {_reason(error)}") from error
                    self._tell(f"{kind.title} cannot go on ({_reason(error)}); the run does, without it")

    def __call__(self, stage: int, step: int, numbers: Numbers) -> None:
        """Write a report."""
        del stage  # `step` counts on from stage to stage
        self._each(lambda sink: sink.write(step, numbers))
        if time.monotonic() - self._flushed >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Bring all to where a killed process does not lose it: before a checkpoint counts."""
        self._flushed = time.monotonic()
        self._each(lambda sink: sink.flush())

    def close(self, failed: bool) -> None:
        """End all of them."""
        self._each(lambda sink: sink.close(failed))
        self._open = {}

    def _each(self, work: Callable[[Sink], None]) -> None:
        for name, sink in list(self._open.items()):
            try:
                work(sink)
            except Exception as error:  # whatever it is, training is worth more
                del self._open[name]
                self._tell(f"{SINKS[name].title} has failed ({_reason(error)}); the run goes on without it")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def opened(session: Session, tell: Tell) -> Iterator[Sinks]:
    """Open the sinks that the settings ask for while the block lasts."""
    sinks = Sinks(tell)
    try:
        sinks.open(session)
        yield sinks
    except BaseException:
        sinks.close(failed=True)
        raise
    sinks.close(failed=False)
