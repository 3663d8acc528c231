"""Shared by all tests: how their programs are compiled, double precision where a proof needs it, and a browser."""

import gc
import os
import shutil
import signal
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from metapl.system import runtime

from .browser import Browser, Page
from .browser import find as find_browser

# The last one is worth as much as the other two: the CPU's new emitters take 15 ms for each of a program's kernels.
# XLA does not know it since JAX 0.12, and kills a process that is given an unknown flag.
HURRY = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make compiling cheap: tests compile hundreds of programs, many of them again, and run each for a moment.

    The compiler is told to hurry, and every worker and child process finds what another has compiled: together half of
    the time. Workers are children of the process that comes here first, and have its choices in their environment.
    """
    gc.set_threshold(50_000, 20, 20)  # JAX's traces make many objects: looking for garbage took a tenth of the time
    os.environ["METAPL_KEEP_MEMORY"] = "0"  # a worker runs many programs and must not keep what each of them needed
    flags = os.environ.get("XLA_FLAGS", "").split()
    hurry = [flag for flag in runtime.known_xla_flags(HURRY) if flag not in flags]
    os.environ["XLA_FLAGS"] = " ".join([*flags, *hurry])
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="metapl-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


TIERS = Path(__file__).parent / "tiers.toml"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make quick` and `make test` leave out; put the longest files first, then those with many.

    Workers take whole files in this order, so a long file does not begin when all others have ended.
    """
    tiers, weights = tomllib.loads(TIERS.read_text("utf-8")), Counter[str]()
    exceptions, longest = tiers.pop("exhaustive_except"), tiers.pop("longest")
    entries = {tier: frozenset(entries) for tier, entries in tiers.items()}
    for item in items:
        file = item.nodeid.partition("::")[0]
        names = {file, item.nodeid.partition("[")[0], item.nodeid}  # what an entry can call it
        marks = {tier for tier, named in entries.items() if not named.isdisjoint(names)}
        if any(not _has_case(item, exceptions[name]) for name in names & exceptions.keys()):
            marks.add("exhaustive")
        for tier in marks:
            item.add_marker(tier)
            weights[file] += 1
    weights.update({file: len(items) * (len(longest) - place) for place, file in enumerate(longest)})
    items.sort(key=lambda item: -weights[item.nodeid.partition("::")[0]])


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: modules and tests."""
    gc.collect()
    gc.freeze()


def _has_case(item: pytest.Item, cases: list[str]) -> bool:
    """Whether a test runs one of these cases, or has no cases at all."""
    callspec = getattr(item, "callspec", None)
    return callspec is None or not set(callspec.id.split("-")).isdisjoint(cases)


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> None:
    # A shell's background jobs ignore Ctrl-C, and so do their children: tests of signals would wait for ever.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


GROWTH_BYTES = 3 << 30  # JAX keeps every program that it has compiled, and machines have a few GiB for each worker


@pytest.fixture(scope="session")
def bytes_after_clearing() -> list[int]:
    return [0]


@pytest.fixture(scope="module", autouse=True)
def bounded_memory(bytes_after_clearing: list[int]) -> Iterator[None]:
    """Forget compiled programs whenever a worker has grown; not after every file, since JAX's own must be made anew."""
    yield
    if runtime.rss_bytes() > bytes_after_clearing[-1] + GROWTH_BYTES:
        jax.clear_caches()
        gc.collect()
        bytes_after_clearing.append(runtime.rss_bytes())


@pytest.fixture
def float64() -> Iterator[None]:
    # Strict: a float32 array that silently meets a float64 one is a bug that a proof would hide.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real Chromium; tests that need one are skipped where there is none (.ci/run installs it)."""
    program = find_browser()
    if program is None:
        pytest.skip("no browser: apt-get install chromium, or name one in METAPL_BROWSER")
    browser = Browser(program, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of it; tests/browser.py tells what it can do."""
    page = browser.new_page()
    yield page
    page.close()
