"""How much memory the machine has, and how much of it is free, within the limit of a container."""

from pathlib import Path

GROUP = "/sys/fs/cgroup"  # of a container


def memory() -> tuple[int | None, int | None]:
    """Total and free memory in bytes; None if the system does not say."""
    sizes = _sizes("/proc/meminfo")  # in kB
    total, free = (sizes[name] * 1024 if name in sizes else None for name in ("MemTotal", "MemAvailable"))
    limit, used = _text(f"{GROUP}/memory.max").strip(), _text(f"{GROUP}/memory.current").strip()
    if total is not None and free is not None and limit.isdigit() and used.isdigit():
        # The group counts files that the system keeps in memory, but gives up if a process needs it.
        occupied = int(used) - _sizes(f"{GROUP}/memory.stat").get("inactive_file", 0)
        return min(total, int(limit)), min(free, max(0, int(limit) - occupied))
    return total, free


def _sizes(path: str) -> dict[str, int]:
    """The numbers of a file whose lines are names and numbers."""
    lines = [line.replace(":", " ").split() for line in _text(path).splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""
