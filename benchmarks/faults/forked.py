"""Start commands by fork: a child begins with all packages imported, which saves seconds each time.

For campaigns with many kills, and for tests that start many commands (tests/forked.py). The process that forks must not
have computed anything with JAX, whose threads a child would lack. A command that is no verb of `metapl` has a new
interpreter.
"""

import atexit
import contextlib
import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import jax

from metapl.cli import main as cli
from metapl.cli.verbs import Verb

PACKAGES = ("grain", "onnx", "onnxruntime", "optuna", "orbax.checkpoint", "metapl.runs.start", "metapl.runs.resume",
            "metapl.sweep.coordinator", "metapl.study.work", "metapl.fit.fit")  # fmt: skip


class Child:
    """A forked command, with the part of subprocess.Popen that campaigns use."""

    def __init__(
        self, place: Path, words: tuple[str, ...], environment: Mapping[str, str], output: Path | None = None
    ) -> None:
        self.returncode: int | None = None
        self._output = output or place.with_name(f"{place.name}.out")
        self._output.touch()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _run(place, words, environment, self._output)
        with contextlib.suppress(OSError):  # the child does so, too: whoever comes first
            os.setpgid(self.pid, self.pid)

    def poll(self) -> int | None:
        """The exit code; None while the command runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for the end; return what was printed."""
        end = time.monotonic() + (timeout or 1e9)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("metapl", timeout or 0)
            time.sleep(0.01)
        return self._output.read_text("utf-8", "replace"), None


@functools.cache
def import_all() -> None:
    """Import what commands need, once."""
    for verbs in cli.GROUPS.values():
        for verb in verbs.values():
            verb.load()
    Verb("data_select:select", "").load()
    for package in PACKAGES:
        importlib.import_module(package)


def _run(place: Path, words: tuple[str, ...], environment: Mapping[str, str], output: Path) -> None:
    """Be the command, and end; nothing of the campaign runs in this process any more."""
    code: object = 1
    atexit._clear()  # the campaign's own: they would delete its folder
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(place)
        for descriptor, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(path, flags, 0o666), descriptor)
        os.dup2(1, 2)
        os.environ.update(environment)
        jax.config.update("jax_compilation_cache_dir", environment["JAX_COMPILATION_CACHE_DIR"])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS"))
        sys.argv = ["metapl", *words]
        cli.main(list(words))
        code = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else bool(code))
