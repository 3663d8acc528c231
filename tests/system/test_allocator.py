"""Freed memory stays in the process, unless the user says otherwise."""

import os
import platform
import subprocess
import sys

import pytest

from metapl.system import allocator

# As XLA does it: a thread asks for a large block in each step, writes to it and frees it.
STEPS = """
import ctypes, os, resource, sys, threading, time
from metapl.system import allocator, runtime
allocator.LOOK_EVERY_S = allocator.SETTLED_AFTER_S = 0.3
why = allocator.keep(os.environ, runtime.rss_bytes)
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
def steps(number):
    for _ in range(number):
        block = ctypes.c_void_p(libc.aligned_alloc(64, 70 << 20))
        ctypes.memset(block, 1, 70 << 20)
        libc.free(block)
def in_a_thread():
    steps(10)
    time.sleep(1)  # unused blocks are returned to the system
    steps(2)
    mib = runtime.rss_bytes() >> 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    steps(5)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, mib, why)
thread = threading.Thread(target=in_a_thread)
thread.start()
thread.join()
"""


def measure(**environment: str) -> tuple[int, int, str]:
    """Return the page faults of five steps, the process's MiB between steps, and why memory is not kept."""
    rest = {name: value for name, value in os.environ.items() if name not in (allocator.SWITCH, *allocator.USERS)}
    command = [sys.executable, "-c", STEPS]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=rest | environment)
    number, mib, *why = done.stdout.split(maxsplit=2)
    return int(number), int(mib), "".join(why).strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_thread_gets_its_large_blocks_back_without_page_faults_and_memory_is_bounded():
    kept, mib, why = measure(JAX_PLATFORMS="cpu")
    returned, _, switched_off = measure(JAX_PLATFORMS="cpu", METAPL_KEEP_MEMORY="0")
    assert (why, switched_off) == ("", "METAPL_KEEP_MEMORY = 0")
    assert kept < 500
    assert mib < 450  # ten blocks would be 750
    assert returned > 5000


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"METAPL_KEEP_MEMORY": "0"}, "METAPL_KEEP_MEMORY"),
        ({"MALLOC_ARENA_MAX": "4", "JAX_PLATFORMS": "cpu"}, "MALLOC_ARENA_MAX"),
        ({"JAX_PLATFORMS": "tpu,cpu"}, "accelerator"),
    ],
)
def test_what_the_user_has_set_stays(environment, why):
    assert why in allocator.keep(environment, lambda: 0)
