"""A stage's program, as `metapl train` runs it, made from shapes alone, for devices that may be on other hardware."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from metapl import models
from metapl.bench import flops
from metapl.config import Config
from metapl.data.loading import loader
from metapl.plan.example_shape import ExampleShape
from metapl.system import sharding
from metapl.system.sharding import Layout
from metapl.train.program import batches, microbatch_sizes, stage_functions
from metapl.types import Batch, Indices, PyTree, Totals, Weights


class PlannedProgram(NamedTuple):
    """A program to compile, and its inputs."""

    layout: Layout
    advance: Any  # jitted; a loop over steps, of which one counts
    arguments: tuple[PyTree, ...]  # their shapes and shardings
    state: PyTree
    batch: Batch
    flops: int  # of one step, on all devices together
    parameters: int  # of the network that is evaluated


def planned_program(config: Config, index: int, examples: ExampleShape, devices: Sequence[Any]) -> PlannedProgram:
    """Make the program of one stage; earlier stages are traced for the shapes of the weights that they pass on."""
    layout, device = sharding.layout(config.parallel, batches(config), devices, microbatch_sizes(config)), devices[0]
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    weights: Weights | None = None
    for number in range(index + 1):
        stage, network = config.stages[number], models.build(config.stage_models[number], examples.classes)
        functions = stage_functions(config, stage, network, own_data=False, layout=layout)
        batch = _batch(config, number, examples, layout, device)
        data = loader.StepBatches(batch, 0)
        start = None if stage.method.uses_stored_predictions else weights
        state = jax.eval_shape(functions.init, keys, start, None, data, None)
        weights = functions.predictor(state)
    assert weights is not None
    totals = jax.eval_shape(functions.zeros, state, keys, None, data)
    state = layout.with_shardings(state, leading=1) if layout.mesh else _whole(state, layout, device)
    step: Any = _whole(jax.ShapeDtypeStruct((), jnp.int32), layout, device)
    totals, keys = _whole(totals, layout, device), _whole(keys, layout, device)
    arguments = state, totals, keys, None, data._replace(first=step), step, step
    size = sum(leaf.size for leaf in jax.tree.leaves(weights.params))
    return PlannedProgram(
        layout, functions.advance, arguments, state, batch, flops.count(functions.advance, *arguments), size
    )


def _batch(config: Config, index: int, examples: ExampleShape, layout: Layout, device: Any) -> Batch:
    """Shapes of one step's batch as read from files, divided among all devices; data kept in memory do not count."""
    stage = config.stages[index]
    dtype = jnp.uint8 if examples.are_pictures else jnp.float32

    def rows(number: int, *shape: int, dtype: Any) -> Any:  # a shape, which stands for an array
        place = layout.rows((1, number, *shape), leading=1) or SingleDeviceSharding(device)
        return jax.ShapeDtypeStruct((1, number, *shape), dtype, sharding=place)

    labeled, unlabeled = stage.labeled_batch, stage.unlabeled_batch
    batch = Batch(
        rows(labeled, *examples.shape, dtype=dtype),
        rows(labeled, dtype=jnp.int32),
        rows(unlabeled, *examples.shape, dtype=dtype),
    )
    if stage.method.uses_stored_predictions:
        batch = batch._replace(
            labeled_predictions=rows(labeled, examples.classes, dtype=jnp.float16),
            predictions=rows(unlabeled, examples.classes, dtype=jnp.float16),
        )
    if stage.method.remembers_examples:
        # Plan reads no data: a method's memory of single examples counts as if one batch were all there is.
        indices = (rows(number, dtype=jnp.int32) for number in (labeled, unlabeled))
        batch = batch._replace(indices=Indices(next(indices), next(indices), Totals(labeled, unlabeled)))
    return batch


def _whole(tree: PyTree, layout: Layout, device: Any) -> PyTree:
    """Shapes of arrays that every device holds completely; also a single device may be on another machine."""
    everywhere = SingleDeviceSharding(device) if layout.mesh is None else NamedSharding(layout.mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere), tree)
