"""What to measure, and how words on the command line choose it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, MinLen

from metapl import config as configs
from metapl.algorithms.supervised import Supervised
from metapl.optim import Optimizer
from metapl.schema import ConfigError
from metapl.types import MethodConfig, ModelConfig

NETWORKS = configs.KINDS[ModelConfig]
METHODS = configs.KINDS[MethodConfig]


@dataclass(frozen=True)
class Bench:
    """One network, one method, and the batches to measure them with."""

    model: ModelConfig
    # The usual optimizer of residual networks; what it costs is hardly to be seen beside the gradient.
    method: MethodConfig = Supervised(Optimizer(momentum=0.9, nesterov=True, weight_decay=5e-4))
    batch: Annotated[tuple[int, ...], MinLen(1)] = (64,)
    """Labelled pictures in a step; several numbers are measured one after the other."""
    unlabeled_batch: Annotated[int, Ge(0)] = 0
    """Unlabelled pictures in a step, for methods that learn from them; 0: as many as labelled ones."""
    size: Annotated[int, Gt(0)] = 32
    """Height and width of a picture."""
    channels: Annotated[int, Gt(0)] = 3
    """Channels of a picture."""
    classes: Annotated[int, Gt(1)] = 10
    """Classes to tell apart."""
    repeats: Annotated[int, Ge(1)] = 10
    """How often each is timed; the table shows the median."""
    starts: bool = True
    """Also start the program twice, in processes of its own: how long it compiles without a cache and with one."""

    def check(self) -> None:
        """Check the batch sizes."""
        if min(self.batch) < 1:
            raise ValueError(f"batch takes whole numbers of at least 1, got {self.batch}")


def choose(words: Sequence[str]) -> Bench:
    """Turn a network's name, a preset or a TOML file, and perhaps a method's name after it, into what to measure."""
    if not 1 <= len(words) <= 2:
        raise ConfigError(f"bench takes a network ({', '.join(NETWORKS)}), a preset or a TOML file, then flags")
    bench = Bench(NETWORKS[words[0]]()) if words[0] in NETWORKS else _as_trained(words[0])
    if len(words) == 1:
        return bench
    if words[1] not in METHODS:
        raise ConfigError(f"{words[1]!r} is not a method; the methods are {', '.join(METHODS)}")
    return replace(bench, method=METHODS[words[1]]())


def _as_trained(preset_or_file: str) -> Bench:
    """The network, and the last stage's method and batches, as `metapl train` would run them."""
    if not Path(preset_or_file).is_file() and preset_or_file not in configs.presets():
        raise ConfigError(
            f"{preset_or_file!r} is neither a network ({', '.join(NETWORKS)}), nor a preset, nor a TOML file; "
            f"{configs.nearest(preset_or_file)}"
        )
    config = configs.load(preset_or_file)
    stage = config.stages[-1]
    return Bench(config.model, stage.method, (stage.labeled_batch,), stage.unlabeled_batch)
