"""Which device holds what: one mesh, one short table. The only file, with `runtime`, that names devices.

    mesh      `data` × `model`: the replicas, and the devices that share each replica (the paper: 128 × 16)
    examples  of a batch, as they are stored and made into views: over all devices
    batch     of activations: over `data`, or over all devices; batch norm and gradients are sums over all of them
    width     of pictures and activations: over `model`, with halo exchanges at convolutions (Section 4)
    weights   one dimension of every kernel, of its optimizer's state and its moving average: over `model`

Networks and the loop name a dimension; the table says which axis of the mesh it goes to, and the compiler's partitioner
does the rest. A run on many devices computes the numbers of a run on one, except for the order in which sums round.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge
from flax.linen import get_logical_axis_rules, logical_axis_rules
from flax.linen.spmd import with_logical_constraint
from jax.experimental import mesh_utils, multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from metapl.schema import ConfigError
from metapl.types import STACKED, Array, PyTree

Axes = str | tuple[str, ...]
Mode = Literal["auto", "single", "data", "hybrid", "weights"]

DATA, MODEL = "data", "model"
ALL = (DATA, MODEL)
# A dimension that is not in a row is whole on every device.
TABLE: dict[str, dict[str, Axes]] = {
    "data": {"examples": DATA, "batch": DATA},
    "weights": {"examples": ALL, "batch": ALL, "weights": MODEL},
    "hybrid": {"examples": ALL, "batch": DATA, "width": MODEL, "weights": MODEL},
}
SPLIT = "kernel"  # flax's name of the weights that are worth splitting; all others together are a thousandth of them


@dataclass(frozen=True)
class Parallel:
    """How devices share the work. It changes where numbers are computed, not the numbers."""

    mode: Mode = "auto"
    """data: each device has a share of the batch. hybrid: groups of `model` devices share each picture's width and all
    weights. weights: as data, and groups of `model` devices, or all of them, share the weights. auto: data, or one
    device if the batches do not divide evenly."""
    model: Annotated[int, Ge(1)] = 1
    """hybrid: how many devices share a picture and the weights; the paper uses 16. weights: how many share the weights;
    1: all."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.mode == "hybrid" and self.model == 1:
            raise ValueError("mode 'hybrid' needs a model above 1, got 1")
        if self.model > 1 and self.mode not in ("hybrid", "weights"):
            raise ValueError(f"a model above 1 needs mode 'hybrid' or 'weights', got {self.mode!r} and {self.model}")


@dataclass(frozen=True)
class Layout:
    """Where a run's arrays are; without a mesh, all on one device."""

    mesh: Mesh | None = None
    rules: tuple[tuple[str, Axes], ...] = ()
    words: str = ""  # a description for the user

    @property
    def devices(self) -> int:
        """The number of devices."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def everywhere(self) -> NamedSharding | None:
        """The sharding that puts all of an array on every device."""
        return None if self.mesh is None else NamedSharding(self.mesh, PartitionSpec())

    def __call__(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Return the function, traced with the mesh and the table, so that names of dimensions have an effect."""
        mesh = self.mesh
        if mesh is None:
            return function

        @functools.wraps(function)
        def traced(*args: Any) -> PyTree:
            with jax.sharding.use_abstract_mesh(mesh.abstract_mesh), logical_axis_rules(self.rules):
                return function(*args)

        return traced

    def shardings(self, state: PyTree, leading: int = 0) -> PyTree:
        """The sharding of each leaf of a state, or of its shapes: kernels are split along one dimension.

        The first `leading` axes (those of the seeds) are not split, nor is the axis of stacked blocks, along which a
        loop runs.
        """
        return jax.tree_util.tree_map_with_path(lambda path, leaf: self._sharding(path, leaf.shape, leading), state)

    def constrain(self, state: PyTree, leading: int = 0) -> PyTree:
        """In a traced function: constrain a state to its `shardings`."""
        if self.mesh is None:
            return state
        return jax.tree.map(jax.lax.with_sharding_constraint, state, self.shardings(state, leading))

    def reshard(self, state: PyTree, leading: int = 0) -> PyTree:
        """Give a state exactly its `shardings`; with equivalent ones, the steps would be compiled twice."""
        return state if self.mesh is None else jax.device_put(state, self.shardings(state, leading))

    def replicate(self, tree: PyTree) -> PyTree:
        """In a traced function: put all of it on every device, so that every process can read it."""
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)

    def put(self, tree: PyTree) -> PyTree:
        """Copy arrays that every process has to every device."""
        everywhere = self.everywhere
        return tree if everywhere is None else jax.tree.map(lambda leaf: _put(leaf, everywhere), tree)

    def with_shardings(self, shapes: PyTree, leading: int = 0) -> PyTree:
        """Add the shardings to a state's shapes."""
        if self.mesh is None:
            return shapes

        def at(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

        return jax.tree.map(at, shapes, self.shardings(shapes, leading))

    def warm_up_collectives(self) -> None:
        """Connect the processes in every group that they will compute in.

        On CPUs (gloo) a group connects at its first sum, and its members must arrive within 30 s of each other. A
        process that must compile a program that another has cached would arrive too late. Once connected, they wait
        longer.
        """
        if self.mesh is None or jax.process_count() == 1:
            return
        groups = [axes for axes in (DATA, MODEL, ALL) if _size(self.mesh, axes) > 1]
        sums = jax.shard_map(
            lambda number: [jax.lax.psum(number, axes) for axes in groups],
            mesh=self.mesh,
            in_specs=PartitionSpec(),
            out_specs=PartitionSpec(),
        )
        jax.block_until_ready(jax.jit(sums)(self.put(np.float32(1))))

    def share(self, size: int) -> tuple[tuple[int, ...], int]:
        """Which rows of a batch of this size this process reads: (its blocks, the number of equal blocks in all)."""
        if self.mesh is None or jax.process_count() == 1:
            return (0,), 1
        where: Mapping[Any, Any] = self._rows(1, (size,)).devices_indices_map((size,))
        firsts = sorted({index[0].start or 0 for index in where.values()})
        mine = {index[0].start or 0 for device, index in where.items() if device.process_index == jax.process_index()}
        return tuple(firsts.index(first) for first in sorted(mine)), len(firsts)

    def put_rows(self, rows: NDArray[np.generic], size: int, leading: int = 0) -> Array:
        """Make a batch of this size from the rows that each process has read; `leading` axes come before the rows."""
        if self.mesh is None:
            return jax.device_put(rows)
        shape = (*rows.shape[:leading], size, *rows.shape[leading + 1 :])
        return jax.make_array_from_process_local_data(self._rows(leading + 1, shape), rows, shape)

    def shard_rows(self, rows: NDArray[np.generic], leading: int = 0) -> Array:
        """Distribute a batch that every process has over the devices; `leading` axes come before the rows."""
        if self.mesh is None:
            return jnp.asarray(rows)
        return _put(rows, self._rows(leading + 1, rows.shape))

    def rows(self, shape: Sequence[int], leading: int = 0) -> NamedSharding | None:
        """The sharding of a batch's rows; `leading` axes come before them."""
        return None if self.mesh is None else self._rows(leading + 1, shape)

    def _rows(self, dimensions: int, shape: Sequence[int]) -> NamedSharding:
        """Split the rows over all devices, or over the replicas, or not at all, as the size allows."""
        assert self.mesh is not None
        choices: tuple[Axes, ...] = (dict(self.rules)["examples"], DATA)
        axes = next((axes for axes in choices if shape[dimensions - 1] % _size(self.mesh, axes) == 0), None)
        return NamedSharding(self.mesh, PartitionSpec(*(None,) * (dimensions - 1), axes))

    def _sharding(self, path: tuple[Any, ...], shape: tuple[int, ...], leading: int) -> NamedSharding | None:
        if self.mesh is None:
            return None
        axes = dict(self.rules).get("weights")
        spec: list[Any] = []
        if axes and getattr(path[-1] if path else None, "key", None) == SPLIT:
            devices = _size(self.mesh, axes)
            leading += any(str(getattr(step, "key", "")).endswith(STACKED) for step in path)
            dividing = [(size, place) for place, size in enumerate(shape) if place >= leading and size % devices == 0]
            if dividing:
                spec = [*[None] * max(dividing)[1], axes]
        return NamedSharding(self.mesh, PartitionSpec(*spec))


SINGLE = Layout()


class ShareError(ConfigError):
    """The devices cannot share the work in the way that the settings ask for."""


def layout(
    settings: Parallel,
    batches: Mapping[str, int],
    devices: Sequence[Any] | None = None,
    microbatches: Mapping[str, int] | None = None,
) -> Layout:
    """Choose how devices share the work; `devices` may be those of another machine.

    `batches` are batch sizes by the names of their settings, `microbatches` the sizes of microbatches, if any.
    """
    available = jax.devices() if devices is None else devices
    several = devices is None and jax.process_count() > 1
    if settings.mode == "single" and several:
        raise ShareError("parallel.mode = 'single' is for one process, and there are several; choose another mode")
    if settings.mode == "single" or (len(available) == 1 and settings.mode != "hybrid"):
        return SINGLE
    if len(available) % settings.model:
        raise ShareError(f"parallel.model = {settings.model} does not divide the {len(available)} devices")
    mode = "data" if settings.mode == "auto" else settings.mode
    members = len(available) if settings.mode == "weights" and settings.model == 1 else settings.model
    shape = (len(available) // members, members)
    if wrong := _undivided({**batches, **(microbatches or {})}, shape[0] if mode == "hybrid" else len(available)):
        if settings.mode == "auto" and not several:
            return Layout(words=f"only one of {len(available)} devices is used: {wrong}")
        raise ShareError(wrong)
    mesh = Mesh(device_grid(shape, available), ALL)
    table = dict(TABLE[mode])
    if _undivided(batches, len(available)):
        table["examples"] = DATA
    return Layout(mesh, tuple(table.items()), _words(mode, shape))


def device_grid(shape: tuple[int, int], devices: Sequence[Any]) -> NDArray[Any]:
    """Arrange the devices as [replica, member], so that neighbours in the mesh are near each other in the machine.

    Both axes may share a side of the machine: groups of 2 on a slice of 4×4 chips.
    """
    try:
        return mesh_utils.create_device_mesh(shape, list(devices), allow_split_physical_axes=True)
    except (AssertionError, NotImplementedError, ValueError):
        raise ConfigError(
            f"{len(devices)} devices of this machine cannot be arranged as {shape[0]} × {shape[1]}: "
            "use a rectangular block of its chips, or another parallel.model"
        ) from None


def named(array: Array, *names: str | None) -> Array:
    """In a traced function: name an array's dimensions, so that the table says which devices share them.

    A dimension that does not divide evenly stays whole: with parts of unequal size, the partitioner of jax 0.10.2 makes
    wrong gradients of convolutions. A dimension whose name is not in the table stays whole, too. Without a mesh, the
    array is returned as it is.
    """
    if not jax.sharding.get_abstract_mesh().shape:
        return array
    fitting = (name if _fits(size, name) else None for size, name in zip(array.shape, names, strict=True))
    return with_logical_constraint(array, tuple(fitting))


def by_examples(tree: PyTree) -> PyTree:
    """In a traced function: share the examples of a batch, as they are stored, among all devices."""
    return jax.tree.map(lambda leaf: named(leaf, "examples", *(None,) * (leaf.ndim - 1)), tree)


def as_networks_see(tree: PyTree) -> PyTree:
    """In a traced function: share views as networks share their activations; pictures are [B, H, W, C]."""

    def share(leaf: Array) -> Array:
        return activations(leaf) if leaf.ndim == 4 else named(leaf, "batch", *(None,) * (leaf.ndim - 1))

    return jax.tree.map(share, tree)


def activations(array: Array, stride: int = 1) -> Array:
    """In a traced function: name the dimensions of activations [N, H, W, C]; other arrays are returned as they are.

    If a layer with a stride makes the width too narrow to be split, the width is not split before that layer either:
    otherwise the layer's output would come out twice as wide in a loop.
    """
    if array.ndim != 4 or not jax.sharding.get_abstract_mesh().shape:
        return array
    width = "width" if _fits(-(-array.shape[2] // stride), "width") else None
    return named(array, "batch", "height", width, "channels")


def too_narrow(array: Array, stride: int = 1) -> bool:
    """In a traced function: whether the devices that could share the width of [N, H, W, C] have all of it each."""
    shared = bool(jax.sharding.get_abstract_mesh().shape)
    return shared and not _fits(-(-array.shape[2] // stride), "width")


def tokens(array: Array) -> Array:
    """In a traced function: share the examples of [N, …] among all devices, or as `activations` if they are too few.

    A transformer's tokens are not split: all devices that share a picture's width would compute the same of it.
    """
    rest = (None,) * (array.ndim - 1)
    if not jax.sharding.get_abstract_mesh().shape:
        return array
    return named(array, "examples" if _fits(array.shape[0], "examples") else "batch", *rest)


def _fits(size: int, name: str | None) -> bool:
    """Whether the devices that share a dimension get equal parts of it."""
    sizes = jax.sharding.get_abstract_mesh().shape
    rules: dict[str | None, Any] = dict(get_logical_axis_rules())
    axes = rules.get(name, ())
    return size % math.prod(sizes[axis] for axis in ((axes,) if isinstance(axes, str) else axes)) == 0


def gathered(weights: Array) -> Array:
    """In a traced function: put all of a layer's weights on every device, to compute with them.

    Otherwise the partitioner of jax 0.10.2 sometimes splits convolutions by channels, which makes some gradients wrong.
    """
    return named(weights, *(None,) * weights.ndim)


def to_host(leaf: Any) -> NDArray[np.generic]:
    """Copy all of an array to the host, from whichever devices hold it; every process must call this."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return np.asarray(leaf)
    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def _put(leaf: Any, sharding: NamedSharding) -> Array:
    if jax.process_count() == 1:
        return jax.device_put(leaf, sharding)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), sharding), impl=jax.random.key_impl(leaf))
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def _size(mesh: Mesh, axes: Axes) -> int:
    return math.prod(mesh.shape[axis] for axis in ((axes,) if isinstance(axes, str) else axes))


def _undivided(batches: Mapping[str, int], among: int) -> str:
    """Say which batch size does not divide by `among`; "" if all do."""
    for name, size in batches.items():
        if size % among:
            near = sorted({max(among, size // among * among), -(-size // among) * among})
            return f"{name} = {size} does not divide among {among}; {' or '.join(map(str, near))} would"
    return ""


def _words(mode: str, shape: tuple[int, int]) -> str:
    if mode == "hybrid":
        return f"{math.prod(shape)} devices: {shape[0]} replicas of {shape[1]}, which share pictures and weights"
    words = f"{math.prod(shape)} devices share every batch"
    if mode != "weights":
        return words
    return f"{words}; groups of {shape[1]} share all weights" if shape[0] > 1 else f"{words} and all weights"
