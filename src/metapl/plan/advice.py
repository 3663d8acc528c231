"""What to change where a step does not fit, the cheapest first."""

import dataclasses

from metapl.config import Config


def advice(config: Config, index: int, devices: int) -> list[str]:
    """Settings that need less memory, by what the run does not do yet; all but the first three change the method."""
    stage, model = config.stages[index], config.stage_models[index]
    fields = {field.name for field in dataclasses.fields(model)}
    found = []
    if "precision" in fields and model.precision == "float32":  # type: ignore[attr-defined]
        found.append("--model.precision bfloat16: activations take half; weights and statistics stay float32")
    if "remat" in fields and not model.remat:  # type: ignore[attr-defined]
        found.append("--model.remat: each block's activations are computed twice instead of kept; a third more work")
    if config.parallel.model < devices:
        more = 2 * config.parallel.model
        found.append(f"--parallel.mode hybrid --parallel.model {more}: {more} devices share each picture and weight")
    parts = next((parts for parts in range(stage.microbatches + 1, 4096) if _divides(stage, parts, devices, config)), 0)
    if parts:
        found.append(
            f"--stages.{index}.microbatches {parts}: the activations of one part of the batch at a time; one more "
            "forward pass, and batch norm sees one part at a time"
        )
    found.append(
        f"--stages.{index}.unlabeled_batch {max(1, stage.unlabeled_batch // 2)}: a smaller batch, another method"
    )
    return found


def _divides(stage: object, parts: int, devices: int, config: Config) -> bool:
    """Can each part still be shared by all replicas?"""
    sizes = (stage.labeled_batch, stage.unlabeled_batch)  # type: ignore[attr-defined]
    replicas = devices // config.parallel.model
    return all(size % (parts * replicas) == 0 for size in sizes)
