"""Search spaces: names are those of the flags, and invalid ranges are refused before the first trial."""

import optuna
import pytest

from metapl import config as configs
from metapl.schema import ConfigError
from metapl.sweep import space as spaces
from metapl.sweep.space import Parameter

UDA = configs.load("digits_uda_small")


def names(preset: str) -> list[str]:
    return [name.removeprefix("stages.0.method.") for name in spaces.default(configs.load(preset))]


def test_the_default_space_follows_from_the_method():
    smoothing_and_uda = ["label_smoothing", "consistency.weight", "consistency.temperature"]
    assert names("digits_uda_small") == ["optimizer.learning_rate", "optimizer.weight_decay", *smoothing_and_uda]
    rates = ["teacher.learning_rate", "student.learning_rate", "teacher.weight_decay"]
    assert names("digits_mpl_small") == [*rates, *smoothing_and_uda]  # no setting of the finetuning stage
    assert names("digits_fixmatch_small")[-2:] == ["weight", "threshold"]
    assert names("cifar10_4k_mpl")[0] == "model.dropout"
    assert "teacher_dropout" in names("cifar10_4k_mpl")
    assert "stages.1.method.threshold" in names("digits_pseudo_labels_small")


@pytest.mark.parametrize("preset", [name for name in configs.presets() if "small" in name or "imagenet" in name])
def test_every_presets_default_space_fits_it_and_holds_its_own_values(preset):
    config = configs.load(preset)
    space = spaces.default(config)
    assert space
    spaces.check(config, space)


def test_one_weight_decay_is_for_both_networks():
    config = configs.load("digits_mpl_small")
    space = spaces.default(config)
    method = spaces.apply(config, {"stages.0.method.teacher.weight_decay": 0.003}, space).stages[0].method
    assert method.teacher.weight_decay == method.student.weight_decay == 0.003


@pytest.mark.parametrize(
    ("parameter", "within"),
    [
        (Parameter("float", 0.5, 2.0), lambda value: 0.5 <= value <= 2.0),
        (Parameter("log", 0.01, 1.0), lambda value: 0.01 <= value <= 1.0),
        (Parameter("int", 2, 10, 4), lambda value: value in (2, 6, 10) and type(value) is int),
        (Parameter("range", 0.5, 1.5, 0.5), lambda value: value in (0.5, 1.0, 1.5)),
        (Parameter("choice", values=([8], [16, 16], "a", True)), lambda value: value in ([8], [16, 16], "a", True)),
    ],
)
def test_suggested_values_are_in_the_range(parameter, within):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    values = [parameter.suggest(study.ask(), "x") for _ in range(20)]
    assert all(map(within, values))
    assert len({repr(value) for value in values}) > 1


def read(tmp_path, text: str):
    (tmp_path / "space.toml").write_text(text)
    return spaces.read(tmp_path / "space.toml", ["uda", "mpl"])


def test_a_file_has_tables_for_presets_and_one_for_all(tmp_path):
    found = read(
        tmp_path,
        """
        [all]
        seed = {type = "int", low = 0, high = 9}
        [uda]
        "stages.0.method.optimizer.learning_rate" = {type = "log", low = 0.01, high = 1}
        stages.0.labeled_batch = {type = "choice", values = [32, 64]}
        """,
    )
    assert found["mpl"] == {"seed": Parameter("int", 0, 9)}
    assert list(found["uda"]) == ["seed", "stages.0.method.optimizer.learning_rate", "stages.0.labeled_batch"]
    values = {"seed": 3, "stages.0.labeled_batch": 32}
    changed = spaces.apply(UDA, values, found["uda"])
    assert (changed.seed, changed.stages[0].labeled_batch) == (3, 32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "cannot be read"),
        ("", "has no ranges"),
        ("[uda]", "has no ranges"),
        ('[udaa]\nseed = {type = "int", low = 0, high = 9}', "'udaa' is not a preset of this sweep"),
        ("[uda]\nseed = 3", "seed takes a table with a type, got 3"),
        ('[uda]\nseed = {type = "whole"}', "type takes one of float, log, int, range, choice, got 'whole'"),
        ('[uda]\nseed = {type = "int", low = 1}', "int takes low, high, step, got type, low"),
        ('[uda]\nseed = {type = "int", low = 0.5, high = 3}', "take whole numbers"),
        ('[uda]\nseed = {type = "float", low = "a", high = 3}', "take numbers"),
        ('[uda]\nseed = {type = "float", low = 3, high = 3}', "low must be below high"),
        ('[uda]\nseed = {type = "float", low = 3, high = inf}', "finite"),
        ('[uda]\nseed = {type = "range", low = 3, high = 4, step = 0}', "step above 0"),
        ('[uda]\nseed = {type = "log", low = 0, high = 3}', "log needs a low above 0"),
        ('[uda]\nseed = {type = "choice", values = []}', "values takes a list of at least one"),
        ('[uda]\nseed = {type = "choice", values = [1], also = "x"}', "also takes a list of names"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, words):
    with pytest.raises(ConfigError, match="--space") as error:
        read(tmp_path, text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "parameter", "words"),
    [
        ("stages.0.method.optimizer.learningrate", Parameter("log", 0.1, 1), "did you mean 'learning_rate'?"),
        ("stages.3.steps", Parameter("int", 1, 2), "stages.3 does not exist: there are 1"),
        ("stages.0.steps", Parameter("float", 1.0, 2.0), "stages.0.steps takes a whole number, got 1.0"),
        ("stages.0.method.label_smoothing", Parameter("float", 0.0, 1.0), "takes a number below 1, got 1.0"),
        ("stages.0.method.optimizer.rule", Parameter("choice", values=("sgd", "adam")), "got 'adam'"),
        ("seed.x", Parameter("int", 1, 2), "seed takes a whole number"),
    ],
)
def test_a_range_that_the_settings_do_not_take_is_refused_as_in_a_settings_file(name, parameter, words):
    with pytest.raises(ConfigError) as error:
        spaces.check(UDA, {name: parameter})
    assert words in str(error.value)


def test_a_setting_inside_another_one_is_refused():
    space = {
        "model": Parameter("choice", values=({"hidden": [8]},)),
        "model.hidden": Parameter("choice", values=([8],)),
    }
    with pytest.raises(ConfigError, match="is inside another"):
        spaces.apply(UDA, {"seed": 3, "seed.x": 3}, {"seed": Parameter("int", 0, 9), "seed.x": Parameter("int", 0, 9)})
    assert spaces.apply(UDA, {"model.hidden": [8]}, space).model.hidden == (8,)
