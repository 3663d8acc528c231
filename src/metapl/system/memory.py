"""Recognise that memory has run out, whoever says so."""

_XLAS = ("JaxRuntimeError", "XlaRuntimeError")  # by name: the command line starts without JAX
_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory")


def shortage(error: Exception) -> str:
    """Return a sentence for the user if memory has run out; "" if the error is another one."""
    lines = str(error).splitlines() or [""]
    is_xlas = type(error).__name__ in _XLAS and any(word in str(error) for word in _WORDS)
    if not is_xlas and not isinstance(error, MemoryError):
        return ""
    why = next((line for line in lines if "llocat" in line), lines[0]).strip()
    return f"there is not enough memory{f' ({why})' if why else ''}; smaller batches, networks or pictures need less"
