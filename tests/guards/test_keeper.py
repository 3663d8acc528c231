"""Each guard, provoked by numbers: it speaks when it must, once, and not before."""

import json

import numpy as np
import pytest

from metapl.algorithms.mpl import MPL
from metapl.algorithms.pseudo_labels import PseudoLabels
from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import UDA
from metapl.guards.checks import GUARDS
from metapl.guards.facts import facts
from metapl.guards.keeper import Keeper, replay
from metapl.guards.settings import Guards
from metapl.metrics import HISTOGRAM

LABELS = np.repeat(np.arange(4), 10).astype(np.int32)  # four classes, evenly
SUPERVISED, UNLABELED, MPL_STAGE = (
    facts(method, 1000, LABELS, classes=4) for method in (Supervised(), UDA(), MPL(student_wait_steps=200))
)
EVEN = [0.25, 0.25, 0.25, 0.25]
HEALTHY = {
    "teacher_loss": 0.5,
    "student_loss": 0.5,
    "student_gradient_norm": 1.0,
    "consistency_loss": 0.3,
    "mask_rate": 0.5,
    "feedback": 0.1,
    "feedback_cosine": 0.1,
    "teacher_labeled_accuracy": 0.9,
    HISTOGRAM: EVEN,
}


def report(seeds: int = 1, **changed) -> dict[str, np.ndarray]:
    """A healthy report of so many seeds; what is changed is given for each of them."""
    healthy = {name: [value] * seeds for name, value in HEALTHY.items()}
    return {name: np.array(values, np.float32) for name, values in (healthy | changed).items()}


def alarms(reports, stages=(MPL_STAGE,), settings=Guards(), seeds=(0,), every=100):  # noqa: B008
    """What is said of reports that come every so many steps."""
    keeper, found, ends = Keeper(settings, stages, seeds), [], np.cumsum([stage.steps for stage in stages])
    for i, numbers in enumerate(reports):
        step = (i + 1) * every
        found += keeper.read_report(int(np.searchsorted(ends, step)), step, numbers)
    return found


def healthy(count: int):
    """A run in which h moves, as it does."""
    return [report(feedback=[0.1 + 0.01 * i]) for i in range(count)]


BAD = {
    "collapse": {HISTOGRAM: [[0.97, 0.01, 0.01, 0.01]]},
    "mask": {"mask_rate": [0.0], "consistency_loss": [0.0]},
    "zero_gradient": {"student_gradient_norm": [0.0]},
    "saturated": {"feedback_cosine": [-0.999]},
    "teacher": {"teacher_labeled_accuracy": [0.4]},
}


def test_a_healthy_run_hears_nothing():
    assert alarms(healthy(10)) == []


@pytest.mark.parametrize("guard", BAD)
def test_a_guard_speaks_once_after_three_bad_looks_in_a_row(guard):
    bad = [report(**{"feedback": [0.1 + 0.01 * i]} | BAD[guard]) for i in range(10)]
    good = healthy(10)
    never_three = [good[0], good[1], good[2], bad[3], bad[4], good[5], bad[6], bad[7], good[8], bad[9]]
    assert alarms(never_three) == []
    (alarm,) = alarms(good[:4] + bad[4:])
    assert (alarm.guard, alarm.step, alarm.level, alarm.seeds) == (guard, 700, "warn", (0,))
    assert "Try: " in alarm.text
    assert alarms(good[:4] + bad[4:], settings=Guards(**{guard: "off"})) == []
    (sooner,) = alarms(good[:4] + bad[4:], settings=Guards(**{guard: "stop"}, patience=1))
    assert (sooner.step, sooner.level) == (500, "stop")


def test_what_is_quiet_because_it_was_asked_to_be_is_not_bad():
    """The student waits 200 steps: the looks at 300, 400 and 500 are the first that count."""
    (alarm,) = alarms([report(feedback=[0.1 + i], student_gradient_norm=[0.0]) for i in range(10)])
    assert alarm.step == 500
    ramped = facts(MPL(), 1000, LABELS, 4)._replace(quiet_steps=2000)
    assert alarms([report(mask_rate=[0.0])] * 10, [ramped]) == []


def test_the_settings_say_for_how_long():
    method = MPL(student_wait_steps=7)
    assert facts(method, 10, LABELS, 4).quiet_steps == 7
    assert facts(Supervised(), 10, LABELS, 4).quiet_steps == 0
    assert not facts(PseudoLabels(), 10, LABELS, 4).feedback


def test_an_h_that_is_switched_off_may_be_zero_and_one_that_is_not_may_not():
    off = MPL_STAGE._replace(feedback=False)
    silent = [report(feedback=[0.0], feedback_cosine=[0.0])] * 10
    assert alarms(silent, [off]) == []
    (alarm,) = alarms(silent)
    assert alarm.guard == "zero_gradient"
    assert "feedback exactly 0" in alarm.text


def test_an_h_that_never_changes_is_saturated_where_no_cosine_says_so():
    same = report(feedback=[0.125])
    del same["feedback_cosine"]
    (alarm,) = alarms([same] * 10)
    assert alarm.guard == "saturated"
    assert "h stays at 0.125" in alarm.text


def test_a_stage_that_learnt_from_no_unlabelled_example_is_told_of_however_short():
    (alarm,) = alarms([report(mask_rate=[0.0])] * 2, [UNLABELED._replace(steps=200)])
    assert (alarm.guard, alarm.step) == ("mask", 200)
    assert alarms([report(mask_rate=[0.0]), report()], [UNLABELED._replace(steps=200)]) == []


def test_one_example_in_thousands_is_as_good_as_none():
    """FixMatch on CIFAR-10 with a threshold that is too high: 7e-5 of the examples, then none."""
    (alarm,) = alarms([report(mask_rate=[7e-5]), report(mask_rate=[0.0])], [UNLABELED._replace(steps=200)])
    assert alarm.guard == "mask"
    (alarm,) = alarms([report(mask_rate=[0.0]), report(mask_rate=[6e-5])], [UNLABELED._replace(steps=200)])
    assert "hardly an unlabelled example passes the threshold: 6e-05 of them" in alarm.text
    assert alarms([report(**BAD["collapse"])] * 2, [UNLABELED._replace(steps=200)]) == []  # it may yet spread


def test_reports_that_come_close_together_are_taken_together():
    """Every 5 of 1,000 steps: four reports make a look, and three looks, 60 steps, are needed."""
    bad = [report(**BAD["collapse"])] * 20
    (alarm,) = alarms(bad, [UNLABELED], every=5)
    assert alarm.step == 60


def test_classes_are_counted_against_those_of_the_labelled_examples():
    """Few labels of a class that is rare among the labelled, too, are no collapse; none of a frequent one are."""
    rare = facts(UDA(), 1000, np.array([0] * 97 + [1, 2, 3], np.int32), 4)
    assert alarms([report(**BAD["collapse"])] * 5, [rare]) == []
    assert alarms([report(**{HISTOGRAM: [[1.0, 0, 0, 0]]})] * 5, [rare])[0].guard == "collapse"
    half = {HISTOGRAM: [[0.5, 0.4, 0.08, 0.02]]}
    assert alarms([report(**half)] * 5, [UNLABELED]) == []  # one class of four is hardly given


def test_a_teacher_is_held_against_the_supervised_stage_before():
    supervised = {"loss": np.ones(1), "labeled_accuracy": np.array([0.95])}
    stages = [SUPERVISED, MPL_STAGE]
    fresh = [report(feedback=[0.1 * i], teacher_labeled_accuracy=[0.6]) for i in range(10)]
    (alarm,) = alarms([supervised] * 10 + fresh, stages)
    assert alarm.guard == "teacher"
    assert "60.0% of them are right, after 95.0%" in alarm.text
    mixed = [SUPERVISED._replace(labeled_as=("weak", 1.0)), MPL_STAGE]
    assert alarms([supervised] * 10 + fresh, mixed) == []  # mixed examples are harder: nothing to compare


@pytest.mark.parametrize("data", ["val", "test"])
def test_a_student_is_held_against_the_supervised_start(data):
    name = f"{data}_accuracy"
    first = {"loss": np.ones(1), name: np.array([0.8])}
    early, worse, as_good = (report(feedback=[0.1], **{name: [value]}) for value in (0.5, 0.77, 0.79))
    stages = [SUPERVISED, MPL_STAGE]
    (alarm,) = alarms([first] * 10 + [early] + healthy(8) + [worse], stages)
    assert (alarm.guard, alarm.step) == ("student", 2000)
    assert f"{name} 77.0%, after 80.0%" in alarm.text
    assert alarms([first] * 10 + [early] + healthy(8) + [as_good], stages) == []


def test_of_several_seeds_the_bad_ones_are_named():
    bad = [report(2, feedback=[0.1 * i, 0.2 * i], mask_rate=[0.5, 0.0]) for i in range(10)]
    (alarm,) = alarms(bad, seeds=(7, 9))
    assert alarm.seeds == (9,)
    assert alarm.text.startswith("seed 9: ")


def test_numbers_that_are_none_are_told_of_at_once_with_network_step_and_settings():
    """The teacher is finite for 30 of the 100 steps 101 … 200, the student for 31."""
    broken = report(
        teacher_loss=[np.nan], student_loss=[np.inf], finite_teacher=[0.3], finite_student=[0.31], mask_rate=[np.nan]
    )
    (alarm,) = alarms([report(), broken, broken])
    assert (alarm.guard, alarm.level, alarm.step) == ("nonfinite", "stop", 200)
    assert "between steps 101 and 200 of stages.0" in alarm.text
    assert alarm.good_steps == 129  # weights after 130 steps gave the numbers of step 131
    teacher, student = alarm.text.index("the teacher's numbers"), alarm.text.index("the student's numbers")
    assert teacher < student
    assert "from step 131 on (teacher_loss)" in alarm.text
    assert "from step 132 on (student_loss)" in alarm.text
    assert "stages.0.method.teacher, stages.0.method.student" in alarm.text
    assert alarms([report(), broken], settings=Guards(nonfinite="off")) == []


def test_a_score_that_is_no_number_is_named_where_no_network_is():
    (alarm,) = alarms([report(test_nll=[np.nan])])
    assert "not finite: test_nll" in alarm.text
    assert alarm.good_steps == 0  # somewhere in the first report's steps


def lines(reports, seeds):
    """As metrics.jsonl has them: steps count in their stage, which is the second after ten reports."""
    for i, numbers in enumerate(reports):
        values = {name: values.tolist() for name, values in numbers.items()}
        place = {"seeds": seeds, "stage": i // 10, "step": 100 * (i % 10 + 1)}
        yield json.dumps(place | values).replace("NaN", "null")


@pytest.mark.parametrize("cut", [0, 5, 10, 14, 15, 16, 18, 20])
def test_a_resumed_run_neither_warns_twice_nor_forgets(cut):
    reports = healthy(13) + [report(feedback=[0.1 * i], **BAD["collapse"]) for i in range(7)]
    reports[18] = reports[18] | {"teacher_loss": np.array([np.nan], np.float32)}
    stages = [UNLABELED, MPL_STAGE]
    whole = alarms(reports, stages)
    assert [(alarm.guard, alarm.step) for alarm in whole] == [("collapse", 1600), ("nonfinite", 1900)]
    keeper = Keeper(Guards(), stages, (0,))
    said = replay(keeper, [*lines(reports[:cut], [1]), *lines(reports[:cut], [0])])
    after = [alarm for i in range(cut, 20) for alarm in keeper.read_report(i // 10, 100 * (i + 1), reports[i])]
    assert said + after == whole


def test_every_guard_can_be_set():
    assert {*GUARDS, "nonfinite"} == {name for name, value in vars(Guards()).items() if isinstance(value, str)}
