"""Name a run's method in the paper's words, and find the preset that it was started from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from metapl import config as configs
from metapl.algorithms import METHODS
from metapl.config import Checkpoint, Config
from metapl.guards.settings import Guards
from metapl.report.read import ReportedRun, table
from metapl.schema import ConfigError, to_dict

# Settings that do not make a run another experiment.
_IGNORED = (
    "seed",
    "log_every_steps",
    "eval_every_steps",
    "record_labels",
    "checkpoint",
    "guards",
    "tensorboard",
    "wandb",
    "mlflow",
)

# The parts of the method, in the order in which the paper's Figure 3 adds them.
RUNGS = (
    "Supervised",
    "RandAugment",
    "Supervised + MPL + finetuning",
    "UDA",
    "UDA + MPL",
    "UDA + MPL + finetuning",
)


class Origin(NamedTuple):
    """The preset of a run, and the paper's number for it."""

    preset: str = ""
    paper: str = ""  # from the preset's header; "" for a run without a preset
    changes: tuple[str, ...] = ()  # settings that differ from the preset's; then the paper's number is not for this run

    @property
    def number(self) -> str:
        """The paper's number, if it has one for exactly these settings."""
        return self.paper if "%" in self.paper and not self.paper.startswith("no") else ""


def title(loaded: ReportedRun) -> str:
    """The method's name, as in the paper's figures."""
    stages = [table(stage.get("method")) for stage in loaded.stages]
    if not stages:
        return "?"
    words = [_of_stage(stage) for stage in stages]
    if loaded.stages[0].get("unlabeled") == "labeled":
        words[0] += " as a regulariser"
    if len(words) > 1 and stages[-1].get("name") == "supervised" and stages[-2].get("name") != "supervised":
        words[-1] = "finetuning"
    if len(words) > 1 and words[0] == "Supervised" and words[1] != "finetuning":
        words = words[1:]  # the teacher's own stage, which the next name includes
    return " + ".join(words)


def _of_stage(method: Mapping[str, Any]) -> str:
    name = str(method.get("name", "?"))
    titles = {settings.name: settings.title for settings in METHODS}
    strong = "strong" in (method.get("view"), method.get("labeled_view"))
    extras = [word for word, on in (("Mixup", method.get("mixup")), ("RandAugment", strong)) if on]
    if name == "mpl":
        consistency = table(method.get("consistency"))
        kind = "Pseudo Labels" if consistency.get("labels") == "hard" else "UDA"
        teacher = kind if consistency.get("weight") else "/".join(extras) or "Supervised"
        if own := table(method.get("own")).get("name"):
            teacher = titles.get(str(own), str(own))
        silent = table(method.get("feedback")).get("estimator") == "none"
        return f"{teacher} + MPL" + (" (no feedback)" if silent else "")
    if name == "supervised":
        smooth = ["label smoothing"] if method.get("label_smoothing") else []
        return "/".join(extras + smooth) or "Supervised"
    return titles.get(name, name)


def experiment_key(loaded: ReportedRun, splits: bool = True) -> str:
    """A key that is equal for runs that differ only in their seeds; without `splits`, also in their split."""
    settings = {name: value for name, value in loaded.settings.items() if name not in _IGNORED}
    if not splits:
        settings["data"] = {name: value for name, value in table(settings.get("data")).items() if name != "split"}
        return f"{loaded.labels} {json.dumps(settings, sort_keys=True, default=str)}"
    return f"{loaded.data_key} {json.dumps(settings, sort_keys=True, default=str)}"


def origin(loaded: ReportedRun) -> Origin:
    """Find the preset: the one in the run's command, or else one with the same settings."""
    try:
        config = _bare(configs.parse((loaded.run.path / "config.toml").read_text("utf-8"), "config.toml"))
    except (ConfigError, OSError, UnicodeDecodeError):
        return Origin()
    command = loaded.environment.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    named = next((word for word in words[2:3] if word in configs.presets()), None)
    if named is not None:
        changes = _changes(to_dict(config), to_dict(_preset(named)))
        return Origin(named, "" if changes else paper(named), tuple(changes))
    same = [name for name in configs.presets() if _preset(name) == config]
    return Origin(same[0], paper(same[0])) if same else Origin()


def paper(preset: str) -> str:
    """The paper's number, from a preset's header."""
    for line in _text(preset).splitlines():
        if line.startswith("# Paper"):
            return line.removeprefix("# Paper").strip()
    return ""


@cache
def _preset(name: str) -> Config:
    return _bare(configs.parse(_text(name), name))


@cache
def _text(name: str) -> str:
    return (resources.files("metapl") / "presets" / f"{name}.toml").read_text("utf-8")


def _bare(config: Config) -> Config:
    """The settings without those of `_IGNORED`."""
    return replace(
        config,
        seed=0,
        log_every_steps=1,
        eval_every_steps=0,
        record_labels=0,
        checkpoint=Checkpoint(),
        guards=Guards(),
        tensorboard=False,
        wandb=False,
        mlflow=False,
    )


def _changes(settings: Any, preset: Any, path: str = "") -> list[str]:
    if isinstance(settings, Mapping) and isinstance(preset, Mapping):
        names = [*settings, *(name for name in preset if name not in settings)]
        return [
            change
            for name in names
            for change in _changes(settings.get(name), preset.get(name), f"{path}.{name}" if path else name)
        ]
    if isinstance(settings, list) and isinstance(preset, list) and len(settings) == len(preset):
        pairs = enumerate(zip(settings, preset, strict=True))
        return [change for i, (a, b) in pairs for change in _changes(a, b, f"{path}.{i}")]
    return [] if settings == preset else [f"{path} {_short(settings)}, preset {_short(preset)}"]


def _short(value: Any) -> str:
    return "none" if value is None else str(value) if len(str(value)) < 40 else "…"
