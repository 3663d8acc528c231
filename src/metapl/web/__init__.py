"""Pages on this machine: `metapl serve` and `metapl watch`, on starlette and uvicorn.

`server` starts and stops uvicorn, `deadline` cuts off slow clients, `shield` and `guard` check every request, `replies`
makes JSON. `serve/routes.py` and `watch/routes.py` say which page is at which address.
"""

import importlib.util

from metapl.schema import ConfigError


def require(verb: str) -> None:
    """Raise ConfigError if starlette or uvicorn is not installed."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"metapl {verb} needs {package}, which is not installed: pip install 'metapl[serve]'")
