"""The machine that is planned for: a TPU topology that is not here, or so many devices of this CPU."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge

from metapl.plan.chips import CHIPS, Chip
from metapl.schema import ConfigError
from metapl.system import runtime


@dataclass(frozen=True)
class Target:
    """One of two."""

    topology: str = ""
    """A TPU slice by version and chips along each side: v3:32x32 is the paper's 2,048 cores; v2, v3, v4, v5e, v5p, v6e
    (pip install 'metapl[tpu]' for its compiler; no TPU is needed)."""
    devices: Annotated[int, Ge(0)] = 0
    """So many virtual devices of this CPU, with the CPU's compiler; or, with --topology, so many of its own only."""
    chip: str = ""
    """Whose memory and speed to hold it against: v2, v3, v4, v5e, v5p, v6e, a100, h100. Default: the topology's."""

    def check(self) -> None:
        """Check fields against each other."""
        if not self.topology and not self.devices:
            raise ValueError("plan needs --topology (v3:32x32) or --devices (8)")
        if self.chip and self.chip not in CHIPS:
            raise ValueError(f"there is no chip {self.chip!r} in the table; there are {', '.join(CHIPS)}")


class Machine(NamedTuple):
    """What there is to compile for."""

    devices: list[Any]
    chip: Chip | None  # None: nobody knows what it can do


def machine(target: Target) -> Machine:
    """Find the devices; nothing of JAX may have run before."""
    if not target.topology:
        return Machine(runtime.virtual_devices(target.devices), CHIPS.get(target.chip))
    devices = runtime.tpu_devices(target.topology)
    if target.devices > len(devices):
        raise ConfigError(f"--devices {target.devices}: {target.topology} has {len(devices)} devices")
    version = target.topology.partition(":")[0].lower()
    return Machine(devices[: target.devices or None], CHIPS.get(target.chip or version))
