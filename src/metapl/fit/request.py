"""What a person asks `metapl fit` for."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt

from metapl.schema import ConfigError

NetworkName = Literal["auto", "mlp", "wrn-10-1", "wrn-16-2", "wrn-28-2", "resnet-18", "resnet-50"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
LEAST_S = 10.0


@dataclass(frozen=True)
class Request:
    """All that is not read from the data."""

    budget: str = "30m"
    """About how long all of it may take: 90s, 30m, 2h, 1h30m."""
    allow_duplicates: bool = False
    """Go on although labelled pictures are in val or test, too; the verdict then says that it is too good."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the square that pictures are cut and scaled to; 0: chosen."""
    network: NetworkName = "auto"
    """Which network is trained; auto: what fits pictures and time."""
    mirror: bool = True
    """Is a mirrored picture still one of its class? Not so for digits and letters: --no-mirror."""
    init_from: str = ""
    """A safetensors file, ours or timm's, that every network starts from; it says which network that is."""
    steps: Annotated[int, Ge(0)] = 0
    """Steps of MPL; the baseline has twice as many. 0: as many as fit into the budget."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Draws what is held out, the first weights and the batches."""

    def check(self) -> None:
        """Refuse a time that cannot be."""
        seconds(self.budget)


def seconds(text: str) -> float:
    """Read 30m or 1h30m."""
    parts = _PART.findall(text.strip())
    if not parts or "".join(map("".join, parts)) != text.strip():
        raise ConfigError(f"--budget takes a time such as 90s, 30m or 1h30m, got {text!r}")
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if total < LEAST_S:
        raise ConfigError(f"--budget takes at least {LEAST_S:.0f}s, got {text!r}")
    return total
