"""The model card: what a stranger has to know who finds an export, in one page of Markdown."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

import metapl
from metapl.evaluate.finished_run import read_json
from metapl.evaluate.predictor import Predictor
from metapl.export.check import Asked
from metapl.runs.result import method_name
from metapl.schema import ConfigError

SCORES = {
    "accuracy": "accuracy",
    "top5_accuracy": "top-5 accuracy",
    "nll": "negative log likelihood",
    "calibration_error": "calibration error",
}


class Exported(NamedTuple):
    """One file and how far its answers were from the run's."""

    kind: str
    file: str
    difference: float


def card(predictor: Predictor, exported: Sequence[Exported], asked: Asked) -> str:
    """Write the page."""
    parts = [
        f"# Model card: {predictor.config.stage_models[-1].name}, trained with {method_name(predictor.config)}",
        f"Exported by metapl {metapl.__version__}.",
        "## Network and training",
        _network(predictor),
        f"## Classes ({len(predictor.class_names)})",
        "In the order of the answer's columns; also in `classes.json`.",
        _json_block(list(predictor.class_names)),
        "## Input and output",
        _input(predictor),
        "## Numbers measured",
        _numbers(predictor),
        "## Files",
        _files(exported, asked),
        "## How to run it",
        *(_code(one, predictor) for one in exported),
    ]
    return "\n\n".join(parts) + "\n"


def _json_block(value: Any) -> str:
    """Whatever names hold, it stays a text: in a code block nothing is markup, and no backtick ends it early."""
    return "```json\n" + json.dumps(value, indent=1, ensure_ascii=False).replace("`", "\\u0060") + "\n```"


def _network(predictor: Predictor) -> str:
    model: Any = predictor.config.stage_models[-1]
    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(predictor.weights.params))
    stages = ", then ".join(f"{stage.method.name} ({stage.steps:,} steps)" for stage in predictor.config.stages)
    split = _read(predictor.run / "split.json")
    counts = [f"{split[role]['count']:,} {role}" for role in ("labeled", "unlabeled", "val", "test") if role in split]
    data = f"`{predictor.config.data.name}`" + (f": {', '.join(counts)} examples" if counts else "")
    return f"`{model.name}`, {count:,} parameters. Stages: {stages}. Seed {predictor.seed}. Data: {data}."


def _input(predictor: Predictor) -> str:
    shape = ", ".join(map(str, predictor.example.shape))
    lines = [f"- Input `pictures`: {predictor.example.dtype} [batch, {shape}], any batch size."]
    if predictor.takes_pictures:
        height, width, channels = predictor.example.shape
        colour = "grey" if channels == 1 else "RGB"
        lines += [
            f"- Before: apply the EXIF orientation, make it {colour}, cut the largest centred part of the proportions "
            f"{height}×{width} (height × width), and scale it to that with Pillow's bilinear filter.",
            f"- Inside: {_inside(predictor)}.",
        ]
    lines.append(f"- Output `probabilities`: float32 [batch, {len(predictor.class_names)}], each row adds up to 1.")
    lines.append(f"- Inside, logits are divided by the temperature {predictor.temperature:g}.")
    return "\n".join(lines)


def _inside(predictor: Predictor) -> str:
    view = predictor.config.augmentation
    middle = f"the middle {view.centre:g} is resized to {view.size}×{view.size}, then " if view.size else ""
    return (
        f"{middle}values are divided by 255, {list(view.mean)} is taken away and {list(view.std)} divides what is left"
    )


def _numbers(predictor: Predictor) -> str:
    final = _read(predictor.run / "result.json").get("final", {})
    rows = []
    for key, name in SCORES.items():
        try:
            value = float(final[key]["seeds"][str(predictor.seed)])
        except (KeyError, TypeError, ValueError):
            continue
        rows.append(f"| {name} | {value:.4f} |")
    if not rows:
        return "The run's folder had no result to tell of."
    table = "\n".join(["| on the run's test part | |", "|---|---|", *rows])
    return table + "\n\nMeasured on the run's weights at the end of training, without the temperature."


def _files(exported: Sequence[Exported], asked: Asked) -> str:
    lines = [f"Checked on {len(asked.examples)} {asked.what}; the largest difference of any probability:", ""]
    return "\n".join(lines + [f"- `{one.file}` ({one.kind}): {one.difference:.1e}" for one in exported])


def _code(one: Exported, predictor: Predictor) -> str:
    load, ask = _CODE[one.kind]
    lines = [load, 'classes = json.load(open("classes.json", encoding="utf-8"))', *_picture(predictor), ask]
    if one.kind == "safetensors":
        lines = [load, ask]
    return f"### {one.file}\n\n```python\n" + "\n".join(lines) + "\n```"


def _picture(predictor: Predictor) -> list[str]:
    if not predictor.takes_pictures:
        return [f"batch = np.zeros((1, {predictor.example.shape[0]}), np.float32)"]
    height, width, channels = predictor.example.shape
    mode, shape = ("L", (1, height, width, 1)) if channels == 1 else ("RGB", (1, height, width, 3))
    return [
        f'picture = ImageOps.exif_transpose(Image.open("photo.jpg")).convert("{mode}")',
        f"picture = ImageOps.fit(picture, ({width}, {height}), Image.Resampling.BILINEAR)",
        f"batch = np.asarray(picture).reshape{shape}",
    ]


_IMPORTS = "import json, numpy as np\nfrom PIL import Image, ImageOps\n"
_CODE: Mapping[str, tuple[str, str]] = {
    "onnx": (
        f'{_IMPORTS}import onnxruntime\nsession = onnxruntime.InferenceSession("model.onnx")',
        'print(dict(zip(classes, session.run(None, {"pictures": batch})[0][0])))',
    ),
    "stablehlo": (
        f"{_IMPORTS}from jax import export\n"
        'model = export.deserialize(bytearray(open("model.stablehlo", "rb").read()))',
        "print(dict(zip(classes, np.asarray(model.call(batch))[0])))",
    ),
    "safetensors": (
        "# Weights alone; metapl train … --init-from model.safetensors starts from them.",
        'from safetensors.numpy import load_file\nweights = load_file("model.safetensors")',
    ),
}


def _read(file: Path) -> dict[str, Any]:
    """A file of the run; where it is damaged or not there, the card says less."""
    try:
        return read_json(file) or {}
    except ConfigError:
        return {}
