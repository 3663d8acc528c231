"""Settings of JAX and of the environment before the first computation: the only file that touches the environment.

Programs (the command line) call `start()`; importing the library changes nothing. What the user has set stays.
"""

import os
import platform
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge

import metapl
from metapl.schema import ConfigError
from metapl.system import allocator, xla_flags

Result = TypeVar("Result")

PLATFORMS = ("cpu", "cuda", "tpu")  # that an exported program runs on
OPTIONAL = ("metapl-onednn",)  # packages that change the last bits of results, if they are installed
JOIN_S = 300  # how long to wait for all processes of a run
HEARTBEAT_S = 60  # jax.distributed's own watch, which explains nothing: longer than that of `processes`

# LLVM at level 1 compiles the TwoMoon programs in half the time (UDA 2.5 s against 4.7 s, MPL+UDA 5.2 s against 9.4 s
# of CPU time), and their steps take no longer than at level 3 (1.12 against 1.11 ms, 2.03 against 2.11 ms). For
# programs of small steps that run for seconds; its effect on large convolutions has not been measured.
QUICK_COMPILE = "--xla_backend_optimization_level=1"

# XLA's older code for loops: one MPL+UDA program of TwoMoon compiles in 4.2 s instead of 5.5 s of CPU time, its steps
# take 2.6 ms instead of 2.8, and its weights are the same bits after 1,000 steps.
OLDER_LOOPS = "--xla_cpu_use_fusion_emitters=false"

# Which operations XLA gives to YNNPACK on CPUs. By default it also gives convolutions, whose gradients are then three
# times slower than XLA's own (18 against 60 to 80 GFLOP/s at 32×32×32); with `dot` and `reduce` it does not.
# `reduce` sums a batch norm's channels in 0.25 ms instead of 3.0 ms (64×32×32×32); `eltwise` made the whole step a
# quarter slower. WRN-28-2's training step, batch 64, 2 cores, medians within an hour: nothing set 1,570 ms, `dot` 990,
# `dot,eltwise,reduce` 1,060, `dot,reduce` 790. XLA's flags for oneDNN changed no convolution, and with them matrix
# products did not end within ten minutes.
YNN_OPERATIONS = "--xla_cpu_experimental_ynn_fusion_type=dot,reduce"

XLA_FLAGS = (
    YNN_OPERATIONS,
    QUICK_COMPILE,
    OLDER_LOOPS,
)  # all that `start` may set; it leaves out what XLA does not know


def start(*, quick_compile: bool = False, keep_programs: bool = True) -> None:
    """Set flags that make programs fast, keep freed memory, and keep compiled programs on disk for the next start.

    Call it before JAX's first computation, and as early as you can (`keep_memory`).
    `keep_programs=False` is for callers that compile many programs which are never used again.

    Random keys stay threefry. With rbg, numbers under `vmap` differ from those without, so a seed's result would depend
    on which seeds train beside it; and drawing takes less than one per cent of a picture network's step.
    """
    keep_memory()
    import jax  # imported here, so that callers who only need the cache folder do not wait for it

    jax.config.update("jax_enable_x64", False)  # a user's JAX_ENABLE_X64=1 would change every result
    _add_xla_flags([YNN_OPERATIONS, *([QUICK_COMPILE, OLDER_LOOPS] if quick_compile else [])])
    if keep_programs and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            # TwoMoon programs compile in 1 to 4 s each: JAX's own threshold of 1 s would miss some of them.
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def keep_memory() -> str:
    """Keep freed memory in the process instead of mapping it anew at each step; return why not, or "" if it works.

    METAPL_KEEP_MEMORY=0 switches it off. The command line calls this before a verb's libraries start their threads.
    """
    return allocator.keep(os.environ, rss_bytes)


@dataclass(frozen=True)
class Cluster:
    """Which process this is, if several do one run together; by default it is the only one."""

    processes: Annotated[int, Ge(1)] = 1
    """How many processes there are, on one machine or on many."""
    process_id: Annotated[int, Ge(0)] = 0
    """The number of this process: 0 decides, writes files and prints."""
    coordinator: str = ""
    """HOST:PORT where all processes can reach process 0."""
    cluster: Literal["none", "auto", "slurm", "k8s", "ompi", "mpi4py"] = "none"
    """Take these numbers from the cluster: srun, a Kubernetes job, Open MPI, MPI; auto detects it, also on TPU pods."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.process_id >= self.processes:
            raise ValueError(
                f"--process-id {self.process_id} must be below --processes {self.processes}: they count from 0"
            )
        if (self.processes > 1) != bool(self.coordinator):
            raise ValueError("several --processes need a --coordinator HOST:PORT, and one needs none")
        if self.coordinator and not self.coordinator.rpartition(":")[2].isdigit():
            raise ValueError(f"--coordinator takes HOST:PORT, got {self.coordinator!r}")
        if self.coordinator and self.cluster != "none":
            raise ValueError(f"--cluster {self.cluster} finds the other processes by itself: omit --coordinator")


def connect(cluster: Cluster) -> None:
    """Connect to the other processes, if there are any; call it before JAX's first computation."""
    if cluster.processes == 1 and cluster.cluster == "none":
        return
    import jax

    # It would catch SIGTERM in our place, and ignore it, from here to the first step.
    jax.config.update("jax_enable_preemption_service", False)
    # Anyone who can reach the service can use it: on one machine, accept only this machine.
    local = cluster.coordinator.rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]")
    by_address = bool(cluster.coordinator)
    try:
        with _time_limit(JOIN_S, _not_all_came(cluster)):
            jax.distributed.initialize(
                cluster.coordinator if by_address else None,
                cluster.processes if by_address else None,
                cluster.process_id if by_address else None,
                cluster_detection_method=_DETECTION.get(cluster.cluster, cluster.cluster),
                coordinator_bind_address=cluster.coordinator if local else None,
                initialization_timeout=JOIN_S + HEARTBEAT_S,
                heartbeat_timeout_seconds=HEARTBEAT_S,
            )
    except Exception as error:  # a system error, a missing package, a variable that is not set
        why = f"{error} is not set" if isinstance(error, KeyError) else _first_line(error)
        if by_address:
            meet = f"the processes cannot connect at {cluster.coordinator}: {why}"
            raise ConfigError(f"{meet}; is it an address of process 0's machine, and the port free?") from None
        raise ConfigError(
            f"--cluster {cluster.cluster} finds no cluster ({why}): start this process with srun, mpirun or a job, or "
            "give --processes, --process-id and --coordinator"
        ) from None


# JAX's names. Its detection of Kubernetes has no name in 0.10.2; without a name, JAX tries it last.
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
def _time_limit(seconds: float, sentence: str) -> Iterator[None]:
    """End the process with a sentence if the block takes longer; JAX would abort it with a C++ trace."""

    def end() -> None:
        print(f"metapl: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cache_folder() -> Path:
    """The folder of this user's cache."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metapl"
    except RuntimeError:  # no HOME, and no entry for the user: a container
        raise ConfigError("this user has no home folder to keep a cache in; set XDG_CACHE_HOME to a folder") from None


def make_in_cache(folder: Path) -> Path:
    """Make a folder in the user's cache; ConfigError with the way out if that cannot be done (a read-only home)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"the cache {folder} cannot be made: {error.strerror}"
        raise ConfigError(f"{why}; set XDG_CACHE_HOME to a folder that can be written to") from None
    return folder


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    import jax

    return jax.default_backend() == "cpu"


def has_avx512() -> bool:
    """Whether the processor has AVX-512, as far as the system says."""
    return "avx512f" in _about_processor("flags").split()


def virtual_devices(number: int) -> list[Any]:
    """Return simulated devices that share this CPU; call it before the first computation."""
    import jax

    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:
        if jax.device_count() < number:
            raise
    return jax.devices()[:number]


# What libtpu would otherwise search for or complain about. No TPU is used, so several programs may run at once.
_NO_TPU_HERE = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v3-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def tpu_devices(topology: str) -> list[Any]:
    """The devices of a TPU slice to compile for; no TPU is needed. v3:32x32 has 2,048.

    A chip of v2 or v3 is two devices. The two cores of v4 are one device: JAX makes no mesh of single cores.
    """
    import jax

    for name, value in _NO_TPU_HERE.items():
        os.environ.setdefault(name, value)
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")
    from jax.experimental import topologies

    chip = {"chip_config_name": "megacore"} if topology.startswith("v4:") else {}
    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=topology, **chip).devices)
    except (RuntimeError, ImportError, OSError, ValueError) as error:
        if find_spec("libtpu") is None:
            raise ConfigError(
                "compiling for TPUs needs their compiler: pip install 'metapl[tpu]' (0.7 GB; no TPU is needed)"
            ) from None
        why = str(error).splitlines()[0].partition(": ")[2] or str(error)
        raise ConfigError(f"{topology!r} is not a topology, such as v3:32x32 or v5e:4x4: {why}") from None


def on_cpus(quick: Callable[..., Result], usual: Callable[..., Result], *args: Any) -> Result:
    """Compute `quick(*args)` in programs for CPUs, `usual(*args)` in others.

    The choice is made when a program is compiled, also if it is compiled here for another kind of device.
    """
    from jax import lax

    return lax.platform_dependent(*args, cpu=quick, default=usual)


def describe() -> dict[str, Any]:
    """The machine and the software, to note beside measured numbers."""
    import jax

    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device_kind": device.device_kind,
        "devices": jax.device_count(),
        "cores": cores(),
        "processor": _about_processor("model name") or platform.processor(),
        "system": platform.platform(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "prng": jax.config.jax_default_prng_impl,  # type: ignore[attr-defined]
        "versions": {"metapl": metapl.__version__}
        | {name: metadata.version(name) for name in ("jax", "jaxlib", "flax", "optax", "numpy")}
        | {name: metadata.version(name) for name in OPTIONAL if find_spec(name.replace("-", "_"))}
        | {"python": platform.python_version()},
    }


def peak_rss_bytes() -> int:
    """The most memory that this process has used at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> int:
    """The memory that this process uses now; if the system does not say, the most that it has used."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return peak_rss_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def environment_with_cache(folder: Path) -> dict[str, str]:
    """The environment for a new process that keeps its compiled programs in this folder."""
    rest = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return rest | {"XDG_CACHE_HOME": str(folder)}


def _about_processor(topic: str) -> str:
    """A line of Linux's description of the first core; "" if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(topic)), "")


def known_xla_flags(flags: Sequence[str]) -> list[str]:
    """Return the flags that the installed XLA knows."""
    try:
        cache = cache_folder() / "xla_flags.json"
    except ConfigError:
        cache = None
    return xla_flags.accepted(flags, os.environ, cache)


def left_out_xla_flags() -> list[str]:
    """Return the flags that `start` would set, but that the installed XLA does not know."""
    known = known_xla_flags(XLA_FLAGS)
    return [flag for flag in XLA_FLAGS if flag not in known]


def _add_xla_flags(flags: Sequence[str]) -> None:
    """Append flags that XLA knows, except those that the user has set."""
    present = os.environ.get("XLA_FLAGS", "")
    names = [xla_flags.name_of(flag) for flag in present.split()]
    missing = [flag for flag in flags if xla_flags.name_of(flag) not in names]
    if not missing:
        return
    known = known_xla_flags(XLA_FLAGS)  # all of them, so that one test answers for every command
    if added := [flag for flag in missing if flag in known]:
        os.environ["XLA_FLAGS"] = " ".join([present, *added]).strip()
