"""Read a duration such as 90s, 30m or 1h30m."""

import re

from metapl.schema import ConfigError
from metapl.system.escape import shortened

LEAST_S = 10.0
MOST_DAYS = 366

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")


def seconds(text: str) -> float:
    """The seconds in a text such as 30m or 1h30m."""
    times = _TIME.findall(text.strip())
    if not times or "".join(map("".join, times)) != text.strip():
        raise ConfigError(f"--budget takes a time such as 90s, 30m or 1h30m, got {text!r}")
    total = sum(float(number) * _UNITS[unit] for number, unit in times)
    if total < LEAST_S:
        raise ConfigError(f"--budget takes at least {LEAST_S:.0f}s, got {text!r}")
    if total > MOST_DAYS * _UNITS["d"]:
        raise ConfigError(f"--budget takes at most {MOST_DAYS}d, got {shortened(text, 50)!r}")
    return total
