"""Settings that need less memory, for a step that does not fit; the cheapest first."""

import dataclasses
from collections.abc import Mapping

from metapl.config import Config
from metapl.train.program import stage_batches


def advice(config: Config, index: int, devices: int) -> list[str]:
    """Sentences about settings that the run does not use yet; all but the first three change the results."""
    stage, model = config.stages[index], config.stage_models[index]
    fields = {field.name for field in dataclasses.fields(model)}
    with_model = max((number for number in range(index + 1) if config.stages[number].model), default=None)
    flag = "--model" if with_model is None else f"--stages.{with_model}.model"
    sentences = []
    if "precision" in fields and model.precision == "float32":  # type: ignore[attr-defined]
        sentences.append(f"{flag}.precision bfloat16: half the memory for activations; weights stay float32")
    if "remat" in fields and not model.remat:  # type: ignore[attr-defined]
        sentences.append(
            f"{flag}.remat: compute each block's activations twice instead of keeping them; a third more work"
        )
    groups = range(config.parallel.model + 1, devices + 1)
    if more := next((size for size in groups if devices % size == 0), 0):
        sentences.append(
            f"--parallel.mode hybrid --parallel.model {more}: {more} devices share each picture and weight"
        )
    batches, mode = stage_batches(stage), config.parallel.mode
    replicas = devices // config.parallel.model if mode == "hybrid" else devices
    more_parts = range(stage.microbatches + 1, 4096)
    if parts := next((parts for parts in more_parts if _divide(batches, parts * replicas)), 0):
        sentences.append(
            f"--stages.{index}.microbatches {parts}: activations of one microbatch at a time; one more forward pass, "
            "and batch norm sees one microbatch at a time"
        )
    name, size = list(batches.items())[-1]
    if size > 1 and _divide({name: size // 2}, stage.microbatches * replicas):
        sentences.append(f"--stages.{index}.{name} {size // 2}: a smaller batch, which changes the results")
    return sentences or ["a smaller network or smaller pictures, which change the results"]


def _divide(batches: Mapping[str, int], among: int) -> bool:
    """Whether every batch can be divided into so many equal parts."""
    return all(size % among == 0 for size in batches.values())
