"""Measure the time from the start of a new process to the end of its first step, for which a user has to wait.

`python -m metapl.bench.start SETTINGS` reads settings as JSON, starts as `metapl train` does, does one step and writes
one line of JSON.
"""

import dataclasses
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from metapl.bench.settings import METHODS, NETWORKS, Bench
from metapl.config import KINDS
from metapl.schema import ConfigError, from_dict, to_dict
from metapl.system import runtime


def cold_and_cached(bench: Bench, batch: int) -> dict[str, dict[str, float]]:
    """Start twice with one new cache: the first start compiles, the second reads the cache."""
    settings = json.dumps(to_dict(dataclasses.replace(bench, batch=(batch,))))
    with tempfile.TemporaryDirectory(prefix="metapl-bench-") as cache:
        return {name: _start(settings, Path(cache)) for name in ("cold", "cached")}


def _start(settings: str, cache: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "metapl.bench.start", settings]
    begin = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=runtime.environment_with_cache(cache), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdout is not None
        line = child.stdout.readline()
        first_step_s = time.perf_counter() - begin  # with the interpreter's own start
        if child.wait() or not line:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["it printed nothing"]
            why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise ConfigError(f"a new process ended before its first step: {why}")
    return {"first_step_s": first_step_s, **json.loads(line)}


def one_step(bench: Bench) -> dict[str, float]:
    """Do the first step and what comes before it; time each part, and count the programs that came from the cache."""
    import jax
    from jax import monitoring

    from metapl.bench import program

    events: list[str] = []
    monitoring.register_event_listener(lambda event, **_: events.append(event))
    clock = [time.perf_counter()]

    def done(value: Any) -> Any:
        clock.append(time.perf_counter())
        return value

    case = program.build(bench, bench.batch[0])
    state = done(jax.block_until_ready(case.init(case.key, case.views)))
    lowered = done(case.step.lower(state, case.views, case.key))
    compiled = done(lowered.compile())
    done(jax.block_until_ready(compiled(state, case.views, case.key)))
    parts = [later - earlier for earlier, later in itertools.pairwise(clock)]
    names = ("init_s", "trace_s", "compile_s", "step_s")
    return {
        **dict(zip(names, parts, strict=True)),
        "programs_from_cache": events.count("/jax/compilation_cache/cache_hits"),
        "peak_rss_mib": runtime.peak_rss_bytes() / 2**20,
    }


def main(settings: str) -> None:
    """What the new process does."""
    runtime.start()
    values = json.loads(settings)
    bare = Bench(NETWORKS[values["model"]["name"]](), METHODS[values["method"]["name"]]())
    report = one_step(from_dict(Bench, values, KINDS, bare))
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
