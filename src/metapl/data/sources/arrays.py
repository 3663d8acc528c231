"""Examples that a Python program gives as arrays, to `MetaPseudoLabels` for instance: there is nothing to load."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from metapl.data.sources.dataset import SourceConfig
from metapl.schema import ConfigError


@dataclass(frozen=True)
class Arrays(SourceConfig):
    """Arrays that were given in Python. Settings of a saved estimator say so; no command can load them."""

    name: ClassVar[str] = "arrays"


def load(config: Arrays, seed: int) -> NoReturn:
    """Raise ConfigError: the arrays are not stored anywhere."""
    del config, seed
    raise ConfigError(
        "data.name = 'arrays': the examples were given in Python and are not stored, so there is nothing to load; "
        "choose another data source"
    )
