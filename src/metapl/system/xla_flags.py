"""Which flags the installed XLA knows: it kills a process that is given a flag it does not know.

XLA drops flags without notice, so `accepted` tries them in another process, once for each version of jaxlib.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from metapl.system import disk

PROBE_TIMEOUT_S = 60

# XLA reads its flags when it first needs an option. jaxlib alone is enough for that, and takes a third of the time
# (0.4 s against 1.3 s on a busy machine); if a later jaxlib lacks the class, JAX itself asks. No core files are left.
_PROBE = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    from jaxlib import xla_client
    xla_client.CompileOptions()
except (ImportError, AttributeError):
    import jax
    jax.devices("cpu")
"""


def name_of(flag: str) -> str:
    """Return the name of a flag such as `--name=value`, with its dashes."""
    return flag.partition("=")[0]


def accepted(flags: Sequence[str], environment: Mapping[str, str], cache: Path | None) -> list[str]:
    """Return the flags that the installed XLA knows; the file `cache` remembers the results.

    A flag whose test ends without a result (no memory, too slow) counts as known and is tested again next time: flags
    change the last bits of results, so a busy machine must not change them.
    """
    version = metadata.version("jaxlib")
    results = _read(cache).get(version, {})
    if new := [flag for flag in flags if flag not in results]:
        results |= _test(new, environment)
        _write(cache, version, results)
    return [flag for flag in flags if results.get(flag, True)]


def _test(flags: Sequence[str], environment: Mapping[str, str]) -> dict[str, bool]:
    """Return whether XLA knows each flag, without those whose test had no result."""
    if _error(flags, environment) == "":
        return dict.fromkeys(flags, True)
    errors = {flag: _error([flag], environment) for flag in flags}
    results = {flag: not error for flag, error in errors.items() if error is not None}
    # An error that does not name the flag has another cause.
    return {flag: good for flag, good in results.items() if good or name_of(flag) in str(errors[flag])}


def _error(flags: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return what a process prints when it dies of these flags; empty if it lives; None if the test failed."""
    command = [sys.executable, "-P", "-c", _PROBE]  # -P: modules in the current folder are not imported
    variables = dict(environment) | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (done.stderr or f"exit code {done.returncode}") if done.returncode else ""


def _read(cache: Path | None) -> dict[str, dict[str, bool]]:
    """Return the stored results by version and flag; without those that cannot be read."""
    try:
        stored = json.loads(cache.read_text("utf-8")) if cache else {}
    except (OSError, ValueError):
        return {}
    versions = stored.items() if isinstance(stored, dict) else ()
    return {
        version: {flag: good for flag, good in results.items() if isinstance(good, bool)}
        for version, results in versions
        if isinstance(results, dict)
    }


def _write(cache: Path | None, version: str, results: Mapping[str, bool]) -> None:
    """Store the results, if the folder can be written to."""
    if cache is None or not results:
        return
    content = json.dumps(_read(cache) | {version: dict(results)}, indent=1)
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        disk.write_atomically(cache, f"{content}\n".encode())
