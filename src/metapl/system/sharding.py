"""Which device holds what: one mesh, one short table. The only file, with `runtime`, that names devices.

    mesh      `data` × `model`: the replicas, and the devices that share each replica (the paper: 128 × 16)
    examples  of a batch, as they are stored and made into views: over all devices
    batch     of activations: over `data`, so that batch norm and gradients are sums over all replicas
    width     of pictures and activations: over `model`, with halo exchanges at convolutions (Section 4)
    weights   one dimension of every kernel, of its optimizer's state and its moving average

Networks and the loop name a dimension; the table says which axis of the mesh it goes to, the compiler's partitioner
does the rest. A run on many devices has the numbers of a run on one, but for the order in which sums are rounded.
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
# What is not in a row is whole on every device.
TABLE: dict[str, dict[str, Axes]] = {
    "data": {"examples": DATA, "batch": DATA},
    "weights": {"examples": DATA, "batch": DATA, "weights": DATA},
    "hybrid": {"examples": ALL, "batch": DATA, "width": MODEL, "weights": MODEL},
}
SPLIT = "kernel"  # what flax calls the weights that are worth it: scales, biases and averages are a thousandth of them


@dataclass(frozen=True)
class Parallel:
    """How devices share the work: it changes where numbers are computed, not which."""

    mode: Mode = "auto"
    """data: each device has a part of the batch. hybrid: in groups of `model` devices, which share each picture's width
    and all weights. weights: as data, with all weights in parts. auto: data, or one device where batches do not divide.
    """
    model: Annotated[int, Ge(1)] = 1
    """hybrid: how many devices share a picture and the weights; the paper has 16."""

    def check(self) -> None:
        """Check fields against each other."""
        if (self.mode == "hybrid") != (self.model > 1):
            raise ValueError(f"mode 'hybrid' goes with a model above 1, got {self.mode!r} and {self.model}")


@dataclass(frozen=True)
class Layout:
    """Where a run's arrays are; without a mesh, all on one device."""

    mesh: Mesh | None = None
    rules: tuple[tuple[str, Axes], ...] = ()
    words: str = ""  # what to tell the user

    @property
    def devices(self) -> int:
        """How many there are."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def everywhere(self) -> NamedSharding | None:
        """All of an array on every device."""
        return None if self.mesh is None else NamedSharding(self.mesh, PartitionSpec())

    def __call__(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Let the names of dimensions mean something while a function is traced."""
        mesh = self.mesh
        if mesh is None:
            return function

        @functools.wraps(function)
        def traced(*args: Any) -> PyTree:
            with jax.sharding.use_abstract_mesh(mesh.abstract_mesh), logical_axis_rules(self.rules):
                return function(*args)

        return traced

    def shardings(self, state: PyTree, leading: int = 0) -> PyTree:
        """Where each leaf of a state belongs, or of its shapes: kernels in parts of one dimension.

        `leading` axes are not of the kernels' own: those of the seeds. Nor is that of stacked blocks, which a loop goes
        along.
        """
        return jax.tree_util.tree_map_with_path(lambda path, leaf: self._sharding(path, leaf.shape, leading), state)

    def constrain(self, state: PyTree, leading: int = 0) -> PyTree:
        """In a traced function: have a state be where it belongs."""
        if self.mesh is None:
            return state
        return jax.tree.map(jax.lax.with_sharding_constraint, state, self.shardings(state, leading))

    def reshard(self, state: PyTree, leading: int = 0) -> PyTree:
        """Say where a state is in the words of `shardings`: in others, the steps would be compiled twice."""
        return state if self.mesh is None else jax.device_put(state, self.shardings(state, leading))

    def replicate(self, tree: PyTree) -> PyTree:
        """In a traced function: have all of it on every device, where every process can read it."""
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)

    def put(self, tree: PyTree) -> PyTree:
        """Copy arrays, which every process has, to every device."""
        everywhere = self.everywhere
        return tree if everywhere is None else jax.tree.map(lambda leaf: _put(leaf, everywhere), tree)

    def placed(self, shapes: PyTree, leading: int = 0) -> PyTree:
        """Say of a state's shapes where they belong, too."""
        if self.mesh is None:
            return shapes

        def at(leaf: Any, place: NamedSharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)

        return jax.tree.map(at, shapes, self.shardings(shapes, leading))

    def warm_up_collectives(self) -> None:
        """Have the processes connect in every group that they will compute in, while all are here.

        On CPUs (gloo) a group connects at its first sum, for which its members have to come within 30 s of each other:
        who has to compile a program that another has kept would come too late. Once connected, they wait for longer.
        """
        if self.mesh is None or jax.process_count() == 1:
            return
        groups = [axes for axes in (DATA, MODEL, ALL) if _size(self.mesh, axes) > 1]
        sums = jax.shard_map(
            lambda one: [jax.lax.psum(one, axes) for axes in groups],
            mesh=self.mesh,
            in_specs=PartitionSpec(),
            out_specs=PartitionSpec(),
        )
        jax.block_until_ready(jax.jit(sums)(self.put(np.float32(1))))

    def share(self, size: int) -> tuple[tuple[int, ...], int]:
        """Which rows of a batch of this size this process has to read: some (which) of so many equal parts."""
        if self.mesh is None or jax.process_count() == 1:
            return (0,), 1
        where: Mapping[Any, Any] = self._rows(1, (size,)).devices_indices_map((size,))
        firsts = sorted({index[0].start or 0 for index in where.values()})
        own = {index[0].start or 0 for device, index in where.items() if device.process_index == jax.process_index()}
        return tuple(firsts.index(first) for first in sorted(own)), len(firsts)

    def put_rows(self, rows: NDArray[np.generic], size: int, leading: int = 0) -> Array:
        """Make a batch of this size of the rows that each process has read; `leading` axes come before it."""
        if self.mesh is None:
            return jax.device_put(rows)
        shape = (*rows.shape[:leading], size, *rows.shape[leading + 1 :])
        return jax.make_array_from_process_local_data(self._rows(leading + 1, shape), rows, shape)

    def spread(self, rows: NDArray[np.generic], leading: int = 0) -> Array:
        """Share the rows of a batch, which every process has, among all devices; `leading` axes come before it."""
        if self.mesh is None:
            return jnp.asarray(rows)
        return _put(rows, self._rows(leading + 1, rows.shape))

    def rows(self, shape: Sequence[int], leading: int = 0) -> NamedSharding | None:
        """Where the rows of a batch belong; `leading` axes come before them."""
        return None if self.mesh is None else self._rows(leading + 1, shape)

    def _rows(self, dimensions: int, shape: Sequence[int]) -> NamedSharding:
        """Over all devices, or else over the replicas, or else nowhere, as the size allows."""
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
            each = _size(self.mesh, axes)
            leading += any(str(getattr(step, "key", "")).endswith(STACKED) for step in path)
            dividing = [(size, place) for place, size in enumerate(shape) if place >= leading and size % each == 0]
            if dividing:
                spec = [*[None] * max(dividing)[1], axes]
        return NamedSharding(self.mesh, PartitionSpec(*spec))


SINGLE = Layout()


class ShareError(ConfigError):
    """The devices that there are cannot share the work in the way that was asked for."""


def layout(
    settings: Parallel,
    batches: Mapping[str, int],
    devices: Sequence[Any] | None = None,
    parts: Mapping[str, int] | None = None,
) -> Layout:
    """Choose who does what, for batches by the names of their settings; `devices` may be of another machine.

    `parts` are what networks see of the batches at once, where that is less.
    """
    found = jax.devices() if devices is None else devices
    several = devices is None and jax.process_count() > 1
    if settings.mode == "single" and several:
        raise ShareError("parallel.mode = 'single' is for one process, and there are several")
    if settings.mode == "single" or (len(found) == 1 and settings.mode != "hybrid"):
        return SINGLE
    if len(found) % settings.model:
        raise ShareError(f"parallel.model = {settings.model} does not divide the {len(found)} devices that there are")
    mode = "data" if settings.mode == "auto" else settings.mode
    shape = (len(found) // settings.model, settings.model)
    if wrong := _undivided({**batches, **(parts or {})}, shape[0] if mode == "hybrid" else len(found)):
        if settings.mode == "auto" and not several:
            return Layout(words=f"one of {len(found)} devices works: {wrong}")
        raise ShareError(wrong)
    mesh = Mesh(arranged(shape, found), ALL)
    table = dict(TABLE[mode])
    if _undivided(batches, len(found)):
        table["examples"] = DATA
    return Layout(mesh, tuple(table.items()), _words(mode, shape))


def arranged(shape: tuple[int, int], devices: Sequence[Any]) -> NDArray[Any]:
    """Place replicas and their members so that neighbours in the mesh are near each other in the machine.

    A side of the machine may be shared by both axes: groups of 2 on a slice of 4×4 chips.
    """
    try:
        return mesh_utils.create_device_mesh(shape, list(devices), allow_split_physical_axes=True)
    except (AssertionError, NotImplementedError, ValueError):
        raise ConfigError(
            f"{len(devices)} devices of this machine cannot be arranged as {shape[0]} × {shape[1]}: "
            "take a part of it that is a whole block of chips, or another parallel.model"
        ) from None


def named(array: Array, *names: str | None) -> Array:
    """In a traced function: say what an array's dimensions are, for the table to share them among devices.

    A dimension that does not divide stays whole: of parts of unequal size, the partitioner of jax 0.10.2 makes wrong
    gradients of convolutions. So does a name that the table does not have; without a mesh, nothing happens.
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

    def seen(leaf: Array) -> Array:
        return activations(leaf) if leaf.ndim == 4 else named(leaf, "batch", *(None,) * (leaf.ndim - 1))

    return jax.tree.map(seen, tree)


def activations(array: Array, stride: int = 1) -> Array:
    """In a traced function: name the dimensions of activations [N, H, W, C]; others have none to name.

    What a layer with a stride makes too narrow to be shared is whole before it already: of a width in parts, its own
    would come out twice as large in a loop.
    """
    if array.ndim != 4 or not jax.sharding.get_abstract_mesh().shape:
        return array
    width = "width" if _fits(-(-array.shape[2] // stride), "width") else None
    return named(array, "batch", "height", width, "channels")


def _fits(size: int, name: str | None) -> bool:
    """Do the devices that the table gives a dimension to have equal parts of it?"""
    sizes = jax.sharding.get_abstract_mesh().shape
    rules: dict[str | None, Any] = dict(get_logical_axis_rules())
    axes = rules.get(name, ())
    return size % math.prod(sizes[axis] for axis in ((axes,) if isinstance(axes, str) else axes)) == 0


def gathered(weights: Array) -> Array:
    """In a traced function: have a layer's weights whole on every device, to compute with them.

    Left to itself, the partitioner of jax 0.10.2 splits convolutions by channels at times, some gradients wrongly.
    """
    return named(weights, *(None,) * weights.ndim)


def to_host(leaf: Any) -> NDArray[np.generic]:
    """All of an array, wherever its parts are; every process has to ask for it."""
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
    """Say which batch cannot be shared evenly; empty if none."""
    for name, size in batches.items():
        if size % among:
            near = sorted({max(among, size // among * among), -(-size // among) * among})
            return f"{name} = {size} does not divide among {among}; {' or '.join(map(str, near))} would"
    return ""


def _words(mode: str, shape: tuple[int, int]) -> str:
    if mode == "hybrid":
        return f"{math.prod(shape)} devices: {shape[0]} replicas of {shape[1]}, which share pictures and weights"
    return f"{shape[0]} devices share every batch" + (" and all weights" if mode == "weights" else "")
