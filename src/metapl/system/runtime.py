"""What the process tells JAX before its first computation: the only file that touches the environment.

`start()` belongs to programs (the command line), not to imports: a library that someone imports leaves their
settings alone. Whatever the user has set stays.
"""

import os
import platform
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge

from metapl.schema import ConfigError

Result = TypeVar("Result")

PLATFORMS = ("cpu", "cuda", "tpu")  # what an exported program runs on
JOIN_S = 300  # for all processes of a run to be there
HEARTBEAT_S = 60  # jax.distributed's own watch, which ends a process without a sentence: behind that of `processes`

# LLVM at level 1 compiles the TwoMoon programs in half the time (UDA 2.5 s against 4.7 s, MPL+UDA 5.2 s against 9.4 s
# of CPU time), and their steps take no longer than at level 3 (1.12 against 1.11 ms, 2.03 against 2.11 ms). For
# programs of small steps that run for seconds; what it does to large convolutions has not been measured.
QUICK_COMPILE = "--xla_backend_optimization_level=1"

# Which operations XLA gives to YNNPACK on CPUs. Left alone, it gives convolutions, too, whose gradients are then three
# times slower than XLA's own (18 against 60 to 80 GFLOP/s at 32×32×32); naming `dot` and `reduce` takes them back.
# `reduce` sums a batch norm's channels in 0.25 ms instead of 3.0 ms (64×32×32×32); `eltwise` made the whole step a
# quarter slower. WRN-28-2's training step, batch 64, 2 cores, medians within an hour: nothing set 1,570 ms, `dot` 990,
# `dot,eltwise,reduce` 1,060, `dot,reduce` 790. XLA's switches to oneDNN changed no convolution, and with them matrix
# products did not end within ten minutes.
YNN_OPERATIONS = "--xla_cpu_experimental_ynn_fusion_type=dot,reduce"


def start(*, quick_compile: bool = False, keep_programs: bool = True) -> None:
    """Set what makes programs fast, and keep compiled ones on disk: the second start skips the compiler.

    Who compiles many programs that no one asks for again has them not kept.

    Random keys stay threefry: rbg's numbers under `vmap` differ from those without, so that a seed's result would
    depend on which seeds train beside it, and drawing is below one per cent of a picture network's step.
    """
    import jax  # here, so that those who only ask for the cache folder do not wait for it

    _add_xla_flag(YNN_OPERATIONS)
    if quick_compile:
        _add_xla_flag(QUICK_COMPILE)
    if keep_programs and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        # TwoMoon programs compile in 1 to 4 s each: JAX's own threshold of 1 s would miss some of them.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@dataclass(frozen=True)
class Cluster:
    """Which process this is, where several do one run together; left alone, it is the only one."""

    processes: Annotated[int, Ge(1)] = 1
    """How many processes there are, on one machine or on many."""
    process_id: Annotated[int, Ge(0)] = 0
    """Which of them this is: 0 decides, writes and speaks."""
    coordinator: str = ""
    """HOST:PORT where process 0 can be reached by all."""
    cluster: Literal["none", "auto", "slurm", "k8s", "ompi", "mpi4py"] = "none"
    """Ask the cluster instead: srun, a Kubernetes job, Open MPI, MPI; auto finds out, on TPU pods, too."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.process_id >= self.processes:
            raise ValueError(f"--process-id {self.process_id} is none of --processes {self.processes}, counted from 0")
        if (self.processes > 1) != bool(self.coordinator):
            raise ValueError("several --processes need a --coordinator HOST:PORT, and one needs none")
        if self.coordinator and not self.coordinator.rpartition(":")[2].isdigit():
            raise ValueError(f"--coordinator takes HOST:PORT, got {self.coordinator!r}")
        if self.coordinator and self.cluster != "none":
            raise ValueError(f"--cluster {self.cluster} finds the other processes by itself: leave the coordinator out")


def connect(cluster: Cluster) -> None:
    """Find the other processes, if there are any; before JAX's first computation."""
    if cluster.processes == 1 and cluster.cluster == "none":
        return
    import jax

    # It would hear SIGTERM in our place, and do nothing, from here to the first step.
    jax.config.update("jax_enable_preemption_service", False)
    # The service hears whoever reaches it: on one machine, that is this machine.
    local = cluster.coordinator.rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]")
    told = bool(cluster.coordinator)
    try:
        with _no_longer_than(JOIN_S, _not_all_came(cluster)):
            jax.distributed.initialize(
                cluster.coordinator if told else None,
                cluster.processes if told else None,
                cluster.process_id if told else None,
                cluster_detection_method=_DETECTION.get(cluster.cluster, cluster.cluster),
                coordinator_bind_address=cluster.coordinator if local else None,
                initialization_timeout=JOIN_S + HEARTBEAT_S,
                heartbeat_timeout_seconds=HEARTBEAT_S,
            )
    except Exception as error:  # of the system, of a package that is not there, of a variable that is not set
        why = f"{error} is not set" if isinstance(error, KeyError) else _first_line(error)
        if told:
            meet = f"the processes cannot meet at {cluster.coordinator}: {why}"
            raise ConfigError(f"{meet}; is it an address of process 0's machine, and the port free?") from None
        raise ConfigError(
            f"--cluster {cluster.cluster} does not find this process to be a part of one ({why}): start it as one "
            "(srun, mpirun, a job), or say --processes, --process-id and --coordinator"
        ) from None


# By the names that JAX has for them. Its way to ask Kubernetes has none in 0.10.2: it is the last that it tries.
_DETECTION = {"none": "deactivate", "auto": None, "k8s": None}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _not_all_came(cluster: Cluster) -> str:
    where = f"of the {cluster.processes} processes came to {cluster.coordinator}" if cluster.coordinator else "came"
    return (
        f"not all {where} within {JOIN_S} s: each needs the same number of processes and the same coordinator, and a "
        "process id of its own"
    )


@contextmanager
def _no_longer_than(seconds: float, sentence: str) -> Iterator[None]:
    """End the process with a sentence if the block lasts longer: JAX would abort it, with a trace of C++."""

    def leave() -> None:
        print(f"metapl: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(2)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metapl"
    except RuntimeError:  # no HOME, and a user whom the system has no home of: a container
        raise ConfigError("this user has no home folder to keep a cache in; set XDG_CACHE_HOME to a folder") from None


def cores() -> int:
    """How many threads of work this process can do at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """How much memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_cpu() -> bool:
    """Does JAX compute on the CPU here?"""
    import jax

    return jax.default_backend() == "cpu"


def virtual_devices(number: int) -> list[Any]:
    """So many devices that share this CPU; nothing may have been computed before."""
    import jax

    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:
        if jax.device_count() < number:
            raise
    return jax.devices()[:number]


# What libtpu would otherwise look for or complain about: no TPU is touched, so that several programs may be at it.
_NO_TPU_HERE = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v3-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def tpu_devices(topology: str) -> list[Any]:
    """The devices of a TPU slice that is not here, to compile for: v3:32x32 has 2,048.

    A chip of v2 or v3 is two devices. v4's two cores are one: JAX makes no mesh of them apart.
    """
    import jax

    for name, value in _NO_TPU_HERE.items():
        os.environ.setdefault(name, value)
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    from jax.experimental import topologies

    whole = {"chip_config_name": "megacore"} if topology.startswith("v4:") else {}
    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=topology, **whole).devices)
    except (RuntimeError, ImportError, OSError, ValueError) as error:
        if find_spec("libtpu") is None:
            raise ConfigError(
                "to compile for TPUs takes their compiler: pip install 'metapl[tpu]' (0.7 GB; no TPU is needed)"
            ) from None
        why = str(error).splitlines()[0].partition(": ")[2] or str(error)
        raise ConfigError(f"{topology!r} is not a topology, such as v3:32x32 or v5e:4x4: {why}") from None


def on_cpus(quick: Callable[..., Result], usual: Callable[..., Result], *args: Any) -> Result:
    """Give `quick(*args)` in programs for CPUs, `usual(*args)` in others.

    The choice is made when a program is compiled: one that is planned here for another machine gets the usual way.
    """
    from jax import lax

    return lax.platform_dependent(*args, cpu=quick, default=usual)


def describe() -> dict[str, Any]:
    """The machine and the software that a measured number belongs to."""
    import jax

    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device_kind": device.device_kind,
        "devices": jax.device_count(),
        "cores": cores(),
        "processor": _processor(),
        "system": platform.platform(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "prng": jax.config.jax_default_prng_impl,  # type: ignore[attr-defined]
        "versions": {name: metadata.version(name) for name in ("metapl", "jax", "jaxlib", "flax", "optax", "numpy")}
        | {"python": platform.python_version()},
    }


def peak_rss_bytes() -> int:
    """The most memory that this process has held at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> int:
    """How much memory this process holds now; where the system does not tell, the most that it has held."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return peak_rss_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def environment_with_cache(folder: Path) -> dict[str, str]:
    """The environment for a new process that is to keep its compiled programs in this folder."""
    rest = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return rest | {"XDG_CACHE_HOME": str(folder)}


def _processor() -> str:
    """The CPU's own name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _add_xla_flag(flag: str) -> None:
    """Append a flag, unless the user has set it (to whatever value)."""
    flags = os.environ.get("XLA_FLAGS", "")
    if flag.split("=")[0] not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
