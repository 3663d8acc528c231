"""The model card: what a user of an export has to know, on one page of Markdown."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

import metapl
from metapl.evaluate.finished_run import read_json
from metapl.evaluate.predictor import Predictor
from metapl.export.check import CheckExamples
from metapl.runs.result import method_name
from metapl.schema import ConfigError

SCORES = {
    "accuracy": "accuracy",
    "top5_accuracy": "top-5 accuracy",
    "nll": "negative log likelihood",
    "calibration_error": "calibration error",
}


class Exported(NamedTuple):
    """One file, and the largest difference of its probabilities from the run's."""

    kind: str
    file: str
    difference: float


def card(predictor: Predictor, exported: Sequence[Exported], checked: CheckExamples) -> str:
    """Write the page."""
    trained_with = predictor.rung or method_name(predictor.config)
    parts = [
        f"# Model card: {predictor.config.stage_models[-1].name}, trained with {trained_with}",
        f"Exported by metapl {metapl.__version__}.",
        "## Network and training",
        _network(predictor),
        f"## Classes ({len(predictor.class_names)})",
        "In the order of the output's columns; also in `classes.json`.",
        _json_block(list(predictor.class_names)),
        "## Input and output",
        _input(predictor),
        "## Numbers measured",
        _numbers(predictor),
        "## Files",
        _files(exported, checked),
        "## How to run it",
        *(_code(file, predictor) for file in exported),
    ]
    return "\n\n".join(parts) + "\n"


def _json_block(value: Any) -> str:
    """Write JSON in a code block, where names cannot become markup; backticks are escaped, so that none ends it."""
    return "```json\n" + json.dumps(value, indent=1, ensure_ascii=False).replace("`", "\\u0060") + "\n```"


def _network(predictor: Predictor) -> str:
    model: Any = predictor.config.stage_models[-1]
    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(predictor.weights.params))
    stages = ", then ".join(f"{stage.method.name} ({stage.steps:,} steps)" for stage in predictor.config.stages)
    trained = f"The rung of metapl fit: {predictor.rung}" if predictor.rung else f"Stages: {stages}"
    split = _read(predictor.run / "split.json")
    counts = [f"{split[role]['count']:,} {role}" for role in ("labeled", "unlabeled", "val", "test") if role in split]
    data = f"`{predictor.config.data.name}`" + (f": {', '.join(counts)} examples" if counts else "")
    return f"`{model.name}`, {count:,} parameters. {trained}. Seed {predictor.seed}. Data: {data}."


def _input(predictor: Predictor) -> str:
    shape = ", ".join(map(str, predictor.example.shape))
    lines = [f"- Input `pictures`: {predictor.example.dtype} [batch, {shape}], any batch size."]
    if predictor.takes_pictures:
        height, width, channels = predictor.example.shape
        colour = "grey" if channels == 1 else "RGB"
        lines += [
            f"- You do this first: apply the EXIF orientation, convert to {colour}, cut out the largest centred part "
            f"with the proportions {height}×{width} (height × width), and scale it to that size with Pillow's bilinear "
            "filter.",
            f"- The model does the rest: {_inside(predictor)}.",
        ]
    lines.append(f"- Output `probabilities`: float32 [batch, {len(predictor.class_names)}], each row adds up to 1.")
    lines.append(f"- The model divides logits by the temperature {predictor.temperature:g}.")
    return "\n".join(lines)


def _inside(predictor: Predictor) -> str:
    view = predictor.config.augmentation
    middle = f"the middle {view.centre:g} is resized to {view.size}×{view.size}, then " if view.size else ""
    scaled = f"{list(view.mean)} is subtracted, and the rest is divided by {list(view.std)}"
    return f"{middle}values are divided by 255, {scaled}"


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
        return "The run's folder has no results."
    table = "\n".join(["| on the run's test part | |", "|---|---|", *rows])
    return table + "\n\nMeasured on the run's weights at the end of training, without the temperature."


def _files(exported: Sequence[Exported], checked: CheckExamples) -> str:
    lines = [f"Checked on {len(checked.examples)} {checked.words}; the largest difference of any probability:", ""]
    return "\n".join(lines + [f"- `{file.file}` ({file.kind}): {file.difference:.1e}" for file in exported])


def _code(exported: Exported, predictor: Predictor) -> str:
    load, predict = _CODE[exported.kind]
    lines = [load, 'classes = json.load(open("classes.json", encoding="utf-8"))', *_picture(predictor), predict]
    if exported.kind == "safetensors":
        lines = [load, predict]
    return f"### {exported.file}\n\n```python\n" + "\n".join(lines) + "\n```"


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
    """Read a JSON file of the run; empty if it is damaged or missing: the card then says less."""
    try:
        return read_json(file) or {}
    except ConfigError:
        return {}
