"""A study from TOML: names, settings by their flags' names, errors that say where."""

import pytest

from metapl.schema import ConfigError
from metapl.study import read

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
paper = {few = {accuracy = 97.5}}
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
    study = read.parse(TEXT, "mine")
    assert study.runs() == [("few", "none"), ("few", "mpl"), ("more", "none")]


def test_settings_come_from_the_preset_the_study_the_case_and_the_arm():
    study = read.parse(TEXT, "mine")
    config = read.config_of(study, "more", "none")
    assert config.seed == 7
    assert config.stages[0].steps == 40
    assert config.data.labels_per_class == 10
    assert config.stages[0].method.feedback.estimator == "none"
    assert read.config_of(study, "few", "mpl").stages[0].method.feedback.estimator != "none"


def test_an_arm_that_changes_a_part_of_what_all_share_leaves_the_others_alone():
    shared = '"stages" = [{steps = 40, method = {name = "uda"}}]'
    changed = TEXT.replace('"stages.0.steps" = 40', shared).replace(
        'title = "MPL"', 'title = "MPL"\nset = {"stages.0.method" = {name = "fixmatch"}}'
    )
    study = read.parse(changed.replace('"stages.0.method.feedback.estimator" = "none"', '"seed" = 1'), "mine")
    assert read.config_of(study, "few", "mpl").stages[0].method.name == "fixmatch"
    assert read.config_of(study, "few", "none").stages[0].method.name == "uda"


def test_the_small_study():
    small = read.shrink(read.parse(TEXT, "mine"))
    assert (small.seeds, small.runs()) == (2, [("few", "none"), ("few", "mpl")])
    assert read.config_of(small, "few", "mpl").stages[0].steps == 5


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('control = "none"', 'control = "nothing"', "no arm 'nothing'"),
        ("paper =", "papre =", "arms.mpl has no papre"),
        ("{accuracy = 97.5}", "{acuracy = 97.5}", "arms.mpl.paper.few has no acuracy"),
        ("{few = {accuracy = 97.5}}", "97.5", "arms.mpl.paper takes a table of cases"),
        ("{few = {", "{fewer = {", "arms.mpl: there is no case fewer"),
        (
            "seeds = 3",
            'seeds = 3\nscores = ["loss"]',
            "scores takes accuracy, top5_accuracy, real_accuracy, got 'loss'",
        ),
        ('"stages.0.steps" = 40', '"stages.5.steps" = 40', "no setting 'stages.5.steps'"),
        ('"stages.0.steps" = 40', '"stages.0.stepps" = 40', "stepps"),
        ('preset = "two_moons_mpl"\ntitle', 'preset = "two_moon_mpl"\ntitle', "two_moon_mpl"),
        ('cases = ["few"]\n\n[[pairs]]', 'cases = ["fewer"]\n\n[[pairs]]', "no case fewer"),
        ("seeds = 3", "seeds = 3 3", "mine"),
        ("seeds = 3", 'seeds = "3"', "seeds takes a whole number"),
        ("[[pairs]]", '[arms.before]\nrun_of = "none"\nafter_stage = 4\n[[pairs]]', "arms.before: after_stage = 4"),
        ('seeds = 2\ncases = ["few"]', 'seeds = 2\ncases = ["fewest"]', "small.cases: there is no fewest"),
    ],
)
def test_mistakes_are_named(old, new, words):
    assert old in TEXT
    with pytest.raises(ConfigError, match=words):
        read.parse(TEXT.replace(old, new, 1), "mine")


ROWS = """
set = {"eval_every_steps" = 3000}
[cases.two_moons]
[cases.digits]
only_small = true
seeds = 4
[arms.uda]
preset = "{case}_uda"
[arms.mpl]
preset = "{case}_mpl"
small_preset = "digits_mpl_supervised_small"
[arms.before]
run_of = "mpl"
after_stage = 0
[small]
cases = ["digits"]
preset_suffix = "_small"
"""


def test_a_row_after_a_stage_needs_a_measurement_there():
    with pytest.raises(ConfigError, match="after_stage = 0, but its run is measured at its end only"):
        read.parse(ROWS.replace('set = {"eval_every_steps" = 3000}', ""), "mine")


def test_a_preset_is_named_by_the_case_and_a_row_may_come_from_another_arms_run():
    study = read.parse(ROWS, "mine")
    whole, small = read.full(study), read.shrink(study)
    assert whole.rows() == [("two_moons", arm) for arm in ("uda", "mpl", "before")]
    assert whole.runs() == [("two_moons", "uda"), ("two_moons", "mpl")]
    assert read.config_of(whole, "two_moons", "uda").data.name == "two_moons"
    assert small.seeds_of("digits") == 4
    assert [read.config_of(small, "digits", arm).stages[0].method.name for arm in ("uda", "mpl")] == ["uda", "mpl"]
    assert read.config_of(small, "digits", "mpl").stages[0].method.consistency.weight == 0
    for wrong, words in (
        ('run_of = "mlp"', "no arm 'mlp'"),
        ('run_of = "mpl"\npreset = "two_moons_mpl"', "must be absent"),
    ):
        with pytest.raises(ConfigError, match=words):
            read.parse(ROWS.replace('run_of = "mpl"', wrong), "mine")


def test_the_studies_that_come_with_metapl_are_valid():
    for name in read.studies():
        assert read.load(name, small=False).runs()
        assert read.load(name, small=True).runs()
