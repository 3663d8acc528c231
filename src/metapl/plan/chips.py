"""Speed and memory of one device (a TPU core, or a whole chip), from the makers' own pages.

| chips          | source                                                                                              |
|----------------|-----------------------------------------------------------------------------------------------------|
| v2, clocks     | Jouppi et al. (2020), A Domain-Specific Supercomputer for Training Deep Neural Networks             |
| v3, v4         | cloud.google.com/tpu/docs/v3 and /v4; interconnect: the pod's all-reduce bandwidth over its chips   |
| v5e, v5p, v6e  | cloud.google.com/tpu/docs/v5e, /v5p and /v6e; interconnect: half of the bidirectional bandwidth     |
| a100, h100     | NVIDIA's data sheets of the 80 GB SXM boards; interconnect: NVLink, half of the bidirectional one   |

On v2 and v3, a chip has two cores, each with half of its figures; on v4, two cores work as one device. Peaks are those
of bfloat16 products; float32 products reach a fraction.
"""

from typing import NamedTuple

GIB = 2**30


class Chip(NamedTuple):
    """One device."""

    name: str
    flops_per_s: float  # bfloat16
    memory: int  # bytes
    memory_bytes_per_s: float
    interconnect_bytes_per_s: float  # all links together, one direction
    granted: int = 0  # bytes that the compiler allows a program, if we have seen it refuse more; 0: unknown
    clock_hz: float = 0.0  # 0: unknown, or the compiler estimates no cycles

    @property
    def limit(self) -> int:
        """Bytes that a program must stay under."""
        return self.granted or self.memory


def _core(
    name: str, cores: int, tflops: float, gib: float, gb_per_s: float, link_gb_per_s: float, granted: int
) -> Chip:
    """A chip's figures, divided among its cores."""
    return Chip(
        name,
        flops_per_s=tflops * 1e12 / cores,
        memory=int(gib * GIB / cores),
        memory_bytes_per_s=gb_per_s * 1e9 / cores,
        interconnect_bytes_per_s=link_gb_per_s * 1e9 / cores,
        granted=granted,
        clock_hz=CLOCKS_HZ.get(name, 0.0),
    )


CLOCKS_HZ = {"v2": 0.70e9, "v3": 0.94e9}


CHIPS = {
    chip.name: chip
    for chip in (
        _core("v2", 2, 46, 16, 700, 248, int(7.48 * GIB)),
        _core("v3", 2, 123, 32, 900, 332, int(15.48 * GIB)),
        _core("v4", 1, 275, 32, 1200, 268, 0),
        _core("v5e", 1, 197, 16e9 / GIB, 819, 200, 0),
        _core("v5p", 1, 459, 95, 2765, 600, 0),
        _core("v6e", 1, 918, 32e9 / GIB, 1638, 400, 0),
        _core("a100", 1, 312, 80e9 / GIB, 2039, 300, 0),
        _core("h100", 1, 989, 80e9 / GIB, 3350, 450, 0),
    )
}
