"""A study from TOML: names, settings by their flags' names, errors that say where."""

import pytest

from metapl.schema import ConfigError
from metapl.study import settings

TEXT = """
title = "Does it help?"
question = "With and without."
seeds = 3
first_seed = 7
set = {"stages.0.steps" = 40}

[cases.few]
title = "3 labels a class"
[cases.more]
set = {"data.labels_per_class" = 10}

[arms.none]
preset = "two_moons_mpl"
set = {"stages.0.method.feedback.estimator" = "none"}
[arms.mpl]
preset = "two_moons_mpl"
title = "MPL"
paper = 97.5
cases = ["few"]

[[pairs]]
arm = "mpl"
control = "none"
kind = "confirmatory"

[small]
seeds = 2
cases = ["few"]
set = {"stages.0.steps" = 5}
"""


def test_every_arm_is_run_in_its_cases():
    study = settings.parse(TEXT, "mine")
    assert study.runs() == [("few", "none"), ("few", "mpl"), ("more", "none")]


def test_settings_come_from_the_preset_the_study_the_case_and_the_arm():
    study = settings.parse(TEXT, "mine")
    config = settings.config_of(study, "more", "none")
    assert config.seed == 7
    assert config.stages[0].steps == 40
    assert config.data.labels_per_class == 10
    assert config.stages[0].method.feedback.estimator == "none"
    assert settings.config_of(study, "few", "mpl").stages[0].method.feedback.estimator != "none"


def test_the_small_study():
    small = settings.shrink(settings.parse(TEXT, "mine"))
    assert (small.seeds, small.runs()) == (2, [("few", "none"), ("few", "mpl")])
    assert settings.config_of(small, "few", "mpl").stages[0].steps == 5


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('control = "none"', 'control = "nothing"', "no arm 'nothing'"),
        ("paper = 97.5", "papre = 97.5", "arms.mpl has no papre"),
        ('"stages.0.steps" = 40', '"stages.5.steps" = 40', "no setting 'stages.5.steps'"),
        ('"stages.0.steps" = 40', '"stages.0.stepps" = 40', "stepps"),
        ('preset = "two_moons_mpl"\ntitle', 'preset = "two_moon_mpl"\ntitle', "two_moon_mpl"),
        ('cases = ["few"]\n\n[[pairs]]', 'cases = ["fewer"]\n\n[[pairs]]', "no case fewer"),
        ("seeds = 3", "seeds = 3 3", "mine"),
        ("seeds = 3", 'seeds = "3"', "seeds takes a whole number"),
        ('seeds = 2\ncases = ["few"]', 'seeds = 2\ncases = ["fewest"]', "small.cases: there is no fewest"),
    ],
)
def test_mistakes_are_named(old, new, words):
    assert old in TEXT
    with pytest.raises(ConfigError, match=words):
        settings.parse(TEXT.replace(old, new, 1), "mine")


def test_the_studies_that_come_with_metapl_are_valid():
    for name in settings.studies():
        assert settings.load(name, small=False).runs()
        assert settings.load(name, small=True).runs()
