"""What the numbers amount to."""

import numpy as np
import pytest

from metapl.evaluate.statistics import compared
from metapl.fit import label_next, report, select, verdict
from metapl.fit.foreign_share import Foreign
from metapl.fit.rung import About, Predictions, Rung
from metapl.fit.scores import PictureFacts
from metapl.fit.verdict import Surroundings


def pair(only_ours: int, only_theirs: int, n: int = 200):
    ours, theirs = np.ones(n, bool), np.ones(n, bool)
    theirs[:only_ours] = False
    ours[only_ours : only_ours + only_theirs] = False
    return compared(ours, theirs)


FAMILIAR, SOME, MOST = (
    Foreign(0.5, 0.45, 0.55, 0.0, False),
    Foreign(0.65, 0.6, 0.7, 0.3, True),
    Foreign(0.9, 0.8, 1, 0.8, True),
)


LABELS = np.arange(200).astype(np.int32) % 2


def rung(name: str, wrong: int, uses_unlabeled: bool = True, predicted: int = 200) -> Rung:
    """A rung that gets so many of the first validation pictures wrong."""
    logits = np.zeros((200, 2), np.float32)
    logits[np.arange(200), LABELS] = 2.0
    logits[:wrong] *= -1
    logits[predicted:] = np.nan
    return Rung(About(name, name, "heads", uses_unlabeled), 1.0, Predictions(logits, logits, logits[:0]))


LINEAR, BETTER, WORSE = rung("linear", 50, False), rung("better", 20), rung("worse", 80)


@pytest.mark.parametrize(
    ("rungs", "strange", "outcome", "recommended"),
    [
        ([LINEAR, BETTER, WORSE], FAMILIAR, "helped", "better"),
        ([LINEAR, WORSE], FAMILIAR, "hurt", "linear"),
        ([LINEAR, BETTER], SOME, "neutral", "linear"),
        ([LINEAR, BETTER], SOME, "helped", "better"),
        ([LINEAR, BETTER], MOST, "helped", "linear"),
        ([LINEAR, rung("unknown", 0, predicted=0)], FAMILIAR, "helped", "linear"),
    ],
)
def test_the_recommendation_follows_validation_and_foreign_pictures(rungs, strange, outcome, recommended):
    assert verdict.recommend(rungs, LABELS, strange, outcome)[0].about.name == recommended


@pytest.mark.parametrize(
    ("better", "worse", "outcome"), [(30, 5, "helped"), (5, 30, "hurt"), (6, 5, "neutral"), (5, 5, "neutral")]
)
def test_what_chance_could_explain_is_neutral(better, worse, outcome):
    assert verdict.judge(pair(better, worse)) == outcome


def test_pictures_from_elsewhere_are_not_said_to_show_other_things():
    assert "or to come from elsewhere" in verdict.recommend([LINEAR, BETTER], LABELS, SOME, "neutral")[1]
    said = verdict.warnings(pair(5, 5), "neutral", SOME, 200)[0]
    assert "measured on pictures like the labelled ones" in said


def test_the_usual_choice_is_left_only_for_a_rung_that_chance_does_not_explain():
    aligned, few_more, many_more = rung("aligned", 40), rung("ensemble", 37), rung("uda", 20)
    assert select.best([LINEAR, few_more, aligned], LABELS) is aligned
    assert select.best([LINEAR, few_more, aligned, many_more], LABELS) is many_more
    assert select.best([LINEAR, rung("ensemble", 48)], LABELS) is LINEAR
    assert select.best([rung("linear", 20, False), aligned], LABELS).about.name == "linear"
    assert select.best([LINEAR, rung("aligned", 0, predicted=0)], LABELS) is LINEAR


def test_the_finetuned_network_is_the_usual_choice_and_says_nothing_about_unlabelled_pictures():
    aligned, network = rung("aligned", 40), rung("finetuned", 41, False, predicted=100)
    assert select.best([LINEAR, aligned, network], LABELS) is network
    assert select.best([LINEAR, aligned, rung("finetuned", 80, False, predicted=100)], LABELS) is aligned
    result = judged([LINEAR, aligned, network])
    assert (result["recommended"], result["unlabeled"]) == ("finetuned", "helped")
    assert result["difference"] == judged([LINEAR, aligned])["difference"]
    assert result["compared"] == [aligned.about.title, LINEAR.about.title]


@pytest.mark.parametrize("uses_unlabeled", [True, False])
def test_the_sentence_about_unlabelled_pictures_names_the_rungs_that_it_compares(uses_unlabeled):
    network = rung("finetuned", 41, uses_unlabeled, predicted=100)
    said = report.outcome(judged([LINEAR, rung("aligned", 40), network]))
    assert said.startswith("The unlabelled pictures helped: aligned over linear +")
    assert ("metapl did not train finetuned without them" in said) == uses_unlabeled


def judged(rungs):
    """A verdict on pictures that are told by one feature; the test pictures are the validation pictures."""
    names, features = [str(i) for i in range(200)], LABELS[:, None].astype(np.float32)
    pictures = PictureFacts(LABELS, names, names, ("a", "b"), np.array([100, 100]))
    unlabeled = {rung.about.name: rung.predictions.test for rung in rungs}
    return verdict.verdict(rungs, pictures, Surroundings(LABELS, unlabeled, features, features, features))


def test_without_validation_the_usual_choice_stays():
    aligned = rung("aligned", 0, predicted=0)
    assert select.best([rung("linear", 0, False, predicted=0), aligned], LABELS) is aligned


def test_more_rungs_make_a_choice_by_chance_no_more_probable():
    aligned, ahead = rung("aligned", 40), rung("uda", 35)  # 5 of 200 pictures, 2.0 standard errors
    assert select.best([aligned, ahead], LABELS) is ahead
    others = [rung(f"other{number}", 41) for number in range(6)]
    assert select.best([aligned, *others, ahead], LABELS) is aligned


def test_the_verdict_says_why_a_rung_was_chosen():
    said = verdict.recommend([LINEAR, rung("aligned", 40)], LABELS, FAMILIAR, "helped")[1]
    assert "usual choice" in said
    assert "80.0 % of 200 labelled pictures" in said
    better = verdict.recommend([LINEAR, rung("aligned", 40), rung("uda", 10)], LABELS, FAMILIAR, "helped")[1]
    assert "clearly better than aligned" in better


def test_rungs_are_put_together_only_if_that_makes_the_labels_more_probable():
    other = rung("other", 0)
    other.predictions.validation[150:] *= -1  # wrong where the linear one is right
    assert {one.about.name for one in select.together([LINEAR, other], LABELS)} == {"linear", "other"}
    assert [one.about.name for one in select.together([BETTER, WORSE], LABELS)] == ["better"]


@pytest.mark.parametrize("n", [3, 5])
def test_a_handful_of_pictures_proves_nothing(n):
    assert pair(n, 0, n).low > 0
    assert verdict.judge(pair(n, 0, n)) == verdict.judge(pair(0, n, n)) == "neutral"
    assert verdict.judge(pair(6, 0, 6)) == "helped"


def test_without_unlabelled_pictures_there_is_the_baseline():
    assert verdict.judge(None) == "none"
    assert verdict.recommend([LINEAR], LABELS, None, "none")[0] is LINEAR


def test_what_to_label_next_is_unsure_and_no_two_alike():
    logits = np.array([[9.0, 0]] * 5 + [[0.0, 0]] * 6, np.float32)
    features = np.array([[1.0, 0]] * 5 + [[0, 1.0]] * 3 + [[0, -1.0]] * 3, np.float32)
    chosen = label_next.choose(logits, features, count=2)
    assert set(chosen) <= set(range(5, 11))
    assert features[chosen[0], 1] == -features[chosen[1], 1]
    few = np.concatenate([logits[:5], logits[5:8], logits[5:7]])  # half of them are sure, and far from all others
    apart = np.array([[1.0, 0]] * 5 + [[0, 1.0]] * 5, np.float32)
    assert set(label_next.choose(few, apart, count=3)) <= set(range(5, 10))
    assert len(label_next.choose(logits[:0], features[:0])) == 0
    assert len(set(label_next.choose(logits, features, count=50))) == 11
