"""Recognise that the machine lacks something, memory or a device, whoever says so."""

import os
import traceback
from pathlib import Path

_XLAS = ("JaxRuntimeError", "XlaRuntimeError")  # by name: the command line starts without JAX
_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory")


def shortage(error: Exception) -> str:
    """Return a sentence for the user if memory or a device is missing; "" if the error is another one."""
    return _of_memory(error) or _of_devices(error)


def _of_memory(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    is_xlas = type(error).__name__ in _XLAS and any(word in str(error) for word in _WORDS)
    if not is_xlas and not isinstance(error, MemoryError):
        return ""
    why = next((line for line in lines if "llocat" in line), lines[0]).strip()
    return f"there is not enough memory{f' ({why})' if why else ''}; smaller batches, networks or pictures need less"


def _of_devices(error: Exception) -> str:
    """What JAX says if it cannot use the platform that the user has set; for cuda it is an assertion without words."""
    wanted = os.environ.get("JAX_PLATFORMS")
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if not wanted or not last or Path(last[0].filename).name != "xla_bridge.py":
        return ""
    why = next(iter(str(error).splitlines()), "").partition(" (set JAX_PLATFORMS")[0]
    return f"JAX cannot use JAX_PLATFORMS={wanted}{f': {why}' if why else ''}; unset it, or install what it needs"
