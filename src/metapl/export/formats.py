"""The three kinds of files. Each is written, then read back from the disk as a function that predicts."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export

from metapl import models, weights
from metapl.evaluate.predictor import Predictor
from metapl.export.check import Examples, Predict
from metapl.models import lora
from metapl.models.onednn import portable
from metapl.schema import ConfigError, to_dict
from metapl.system import runtime
from metapl.types import Array

PROTOBUF_LIMIT = 2**31  # bytes of one message, which an ONNX file is

Write = Callable[[Predictor, Path], Predict]


def about(predictor: Predictor) -> dict[str, str]:
    """Metadata of an export, as texts."""
    view = to_dict(predictor.config.augmentation)
    return {
        "classes": json.dumps(predictor.class_names),
        "temperature": json.dumps(predictor.temperature),
        "input": json.dumps({"shape": list(predictor.example.shape), "dtype": predictor.example.dtype}),
        "view": json.dumps({key: view[key] for key in ("size", "centre", "mean", "std")}),
    }


def merged(predictor: Predictor) -> Predictor:
    """The network that computes the same without adapters (models/lora.py): their products are added to the kernels."""
    model: Any = predictor.config.stage_models[-1]
    if not getattr(model, "lora_rank", 0):
        return predictor
    weights = predictor.weights._replace(params=lora.merged(predictor.weights.params, model.lora_alpha))
    plain_model = dataclasses.replace(model, lora_rank=0)
    stages = tuple(dataclasses.replace(stage, model=None) for stage in predictor.config.stages)
    config = dataclasses.replace(predictor.config, model=plain_model, stages=stages)
    network = models.build(plain_model, len(predictor.class_names))
    return dataclasses.replace(predictor, config=config, network=network, weights=weights)


def plain(predictor: Predictor) -> Predictor:
    """The same network in float32 and without `remat`: other programs compute that best."""
    model: Any = predictor.config.stage_models[-1]
    fields = {field.name for field in dataclasses.fields(model)}
    changes = {name: value for name, value in (("precision", "float32"), ("remat", False)) if name in fields}
    network = models.build(dataclasses.replace(model, **changes), len(predictor.class_names))
    return dataclasses.replace(predictor, network=network)


def is_rough(predictor: Predictor) -> bool:
    """Whether the network was trained with fewer digits than the export has."""
    return getattr(predictor.config.stage_models[-1], "precision", "float32") != "float32"


def write_onnx(predictor: Predictor, path: Path) -> Predict:
    """Write an ONNX model, and run it with onnxruntime."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ConfigError(f"--onnx needs {error.name}: pip install 'metapl[export]'") from None
    from metapl.export.graph import INPUT
    from metapl.export.onnx_file import to_onnx

    if sum(leaf.size * 4 for leaf in jax.tree.leaves(predictor.weights)) > 0.95 * PROTOBUF_LIMIT:
        raise ConfigError("--onnx: the weights need more than the 2 GB that an ONNX file may have; use --stablehlo")
    model = to_onnx(_function(predictor), _batch(predictor))
    onnx.helper.set_model_props(model, about(predictor))
    onnx.save_model(model, str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def predict(examples: Examples) -> Any:
        return session.run(None, {INPUT: examples})[0]

    return predict


def write_stablehlo(predictor: Predictor, path: Path) -> Predict:
    """Write the output of jax.export, StableHLO with its version, for several platforms, and run it from the file."""
    with portable():
        exported = jax_export.export(jax.jit(_function(predictor)), platforms=runtime.PLATFORMS)(_batch(predictor))
    path.write_bytes(exported.serialize())
    call = jax_export.deserialize(bytearray(path.read_bytes())).call
    return lambda examples: np.asarray(call(jnp.asarray(examples)))


def write_safetensors(predictor: Predictor, path: Path) -> Predict:
    """Write the weights with their metadata, and run the network with the weights from the file."""
    model = to_dict(predictor.config.stage_models[-1])
    more = {key: text for key, text in about(predictor).items() if key in ("temperature", "view")}
    weights.save(path, predictor.weights, model, predictor.class_names, predictor.example, more)
    read = dataclasses.replace(predictor, weights=weights.load_all(path, predictor.weights))
    return read.probabilities


def _function(predictor: Predictor) -> Callable[[Array], Array]:
    """The network as a function of examples alone; its weights are constants."""
    constants = jax.tree.map(np.asarray, predictor.weights)
    forward = predictor.forward("probabilities")
    return lambda examples: forward(constants, examples)


def _batch(predictor: Predictor) -> jax.ShapeDtypeStruct:
    (batch,) = jax_export.symbolic_shape("batch")
    return jax.ShapeDtypeStruct((batch, *predictor.example.shape), predictor.example.dtype)


# name of the flag -> file name, writer
FORMATS: dict[str, tuple[str, Write]] = {
    "onnx": ("model.onnx", write_onnx),
    "stablehlo": ("model.stablehlo", write_stablehlo),
    "safetensors": ("model.safetensors", write_safetensors),
}
