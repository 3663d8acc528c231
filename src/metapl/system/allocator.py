"""Keep freed memory in the process (Linux with glibc): XLA frees its temporaries after each step and needs them again.

By default glibc returns large blocks to the system at once. A WRN-28-2 step of batch 64 then maps its 358 MB again each
time: 92,000 page faults, 200 ms of the system's time. Kept, there are none (599 instead of 768 ms at best, 2 cores).

| option           | value | why                                                                                   |
|------------------|-------|---------------------------------------------------------------------------------------|
| M_ARENA_MAX      | 1     | the arena of a thread holds blocks of up to 64 MB and maps larger ones, whatever we ask |
| M_MMAP_MAX       | 0     | no block is mapped by itself, to be unmapped when it is freed                         |
| M_TRIM_THRESHOLD | 2 GB  | the free end of the heap is not returned, up to this size                             |

glibc fixes the number of arenas when a second thread first asks for memory. So `keep` must come before JAX's first
computation, and before other libraries start threads; later it changes little.

glibc before 2.38 does not always find a freed block again: it needs 96 bytes more than the block for its alignment, and
the rest after a block may stay in a thread's cache, which holds seven of each size. Blocks then lie beside each other,
and most of them are never used again. So a thread returns unused memory to the system whenever the process has grown by
a quarter since the last time. In a steady run it does nothing.
"""

import ctypes
import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SWITCH = "METAPL_KEEP_MEMORY"  # 0: leave glibc as it is
USERS = ("MALLOC_ARENA_MAX", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
ACCELERATORS = ("/dev/nvidia0", "/dev/accel0", "/dev/vfio/0")

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # glibc's malloc.h
GROWTH, LOOK_EVERY_S, SETTLED_AFTER_S = 1.25, 10.0, 5.0
OPTIONS = {M_ARENA_MAX: 1, M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1}


def keep(environment: Mapping[str, str], rss_bytes: Callable[[], int]) -> str:
    """Have glibc keep freed memory; return why not, or "" if it does. `rss_bytes` measures this process's memory."""
    if environment.get(SWITCH) == "0":
        return f"{SWITCH} = 0"
    if mine := [name for name in USERS if name in environment]:
        return f"you have set {', '.join(mine)}"
    if _not_on_cpus(environment):
        return "JAX computes on an accelerator"
    libc: Any = _libc() if sys.platform == "linux" else None
    if not hasattr(libc, "gnu_get_libc_version"):
        return "only glibc on Linux can"
    refused = [option for option, value in OPTIONS.items() if not libc.mallopt(option, value)]
    if refused:
        return f"glibc refuses the options {refused}"
    _watch(libc, rss_bytes)
    return ""


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None)


@functools.cache  # one thread for the process, however often it is asked for
def _watch(libc: Any, rss_bytes: Callable[[], int]) -> None:
    threading.Thread(target=_bound, args=(libc, rss_bytes), name="metapl-memory", daemon=True).start()


def _bound(libc: Any, rss_bytes: Callable[[], int]) -> None:
    """Return unused memory to the system when the process has grown; what the next step needs, it then maps once."""
    settled = 0.0
    while True:
        time.sleep(LOOK_EVERY_S)
        if rss_bytes() > GROWTH * settled:
            libc.malloc_trim(0)
            time.sleep(SETTLED_AFTER_S)
            settled = rss_bytes()


def _not_on_cpus(environment: Mapping[str, str]) -> bool:
    """Whether JAX will choose an accelerator, whose memory is its own; JAX itself must not be imported yet."""
    platforms = environment.get("JAX_PLATFORMS", "")
    return platforms.split(",")[0] != "cpu" if platforms else any(Path(path).exists() for path in ACCELERATORS)
