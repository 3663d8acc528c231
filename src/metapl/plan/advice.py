"""What to change where a step does not fit, the cheapest first."""

import dataclasses
from collections.abc import Mapping

from metapl.config import Config
from metapl.train.program import stage_batches


def advice(config: Config, index: int, devices: int) -> list[str]:
    """Settings that need less memory, by what the run does not do yet; all but the first three change the method."""
    stage, model = config.stages[index], config.stage_models[index]
    fields = {field.name for field in dataclasses.fields(model)}
    own = max((number for number in range(index + 1) if config.stages[number].model), default=None)
    flag = "--model" if own is None else f"--stages.{own}.model"
    found = []
    if "precision" in fields and model.precision == "float32":  # type: ignore[attr-defined]
        found.append(f"{flag}.precision bfloat16: activations take half; weights and statistics stay float32")
    if "remat" in fields and not model.remat:  # type: ignore[attr-defined]
        found.append(f"{flag}.remat: each block's activations are computed twice instead of kept; a third more work")
    groups = range(config.parallel.model + 1, devices + 1)
    if more := next((size for size in groups if devices % size == 0), 0):
        found.append(f"--parallel.mode hybrid --parallel.model {more}: {more} devices share each picture and weight")
    batches, replicas = stage_batches(stage), devices // config.parallel.model
    more_parts = range(stage.microbatches + 1, 4096)
    if parts := next((parts for parts in more_parts if _divide(batches, parts * replicas)), 0):
        found.append(
            f"--stages.{index}.microbatches {parts}: the activations of one part of the batch at a time; one more "
            "forward pass, and batch norm sees one part at a time"
        )
    name, size = list(batches.items())[-1]
    if size > 1 and _divide({name: size // 2}, stage.microbatches * replicas):
        found.append(f"--stages.{index}.{name} {size // 2}: a smaller batch, another method")
    return found or ["a smaller network, or smaller pictures: another method"]


def _divide(batches: Mapping[str, int], among: int) -> bool:
    """Can each part still be shared by all replicas?"""
    return all(size % among == 0 for size in batches.values())
