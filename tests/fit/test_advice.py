"""What more time, a GPU or more memory would bring: a sentence for what each of them can change, and no other."""

from types import SimpleNamespace

import pytest

from metapl.fit import advice, ladder
from metapl.fit.request import Request


def said(left_out: dict[str, str], not_tried: dict[str, str]) -> str:
    return " ".join(advice.sentences(VERDICT | {"left_out": left_out, "not_tried": not_tried}, None, 0))


VERDICT = {"left_out": {}, "not_tried": {}, "ladder": [{"seconds": 3.0}, {"seconds": 240.0}], "label_errors": []}


def test_doubtful_labels_are_counted():
    doubtful = VERDICT | {"label_errors": [{}] * 4, "labels": 60}
    assert advice.sentences(doubtful, None, 0)[0].startswith("4 of 60 labels look doubtful: look at the first ones")


def test_more_time_is_recommended_only_for_what_lacked_time():
    both = said({"uda": "no time was left"}, {"finetuned": "it needs about 4.0 GB of memory, and 2.0 GB are free"})
    assert "With an hour more, or on a GPU, what was left out could be tried: UDA heads." in both
    assert "With a GPU, or more memory, this could be tried: the pretrained network, finetuned." in both
    assert said({}, {}).startswith("An hour more, or a GPU, would change little")
    assert said({}, {"baseline": "on a CPU"}).startswith("An hour more would change little")
    assert "4 min" in said({}, {})


def test_more_time_trains_the_small_network_longer_in_a_new_fit():
    with_it = VERDICT | {"ladder": [{"name": "linear", "seconds": 3.0}, {"name": "own_network", "seconds": 240.0}]}
    (sentence,) = advice.sentences(with_it, None, 0)
    assert "would train the small network longer" in sentence
    assert "metapl[pretrained]" in sentence
    assert "could be tried" in advice.sentences(with_it | {"left_out": {"uda": "no time was left"}}, None, 0)[0]


def on_the_way(encoder: str, left_s: float = 1000.0) -> SimpleNamespace:
    return SimpleNamespace(
        out=SimpleNamespace(),
        features=SimpleNamespace(settings=SimpleNamespace(encoder=encoder)),
        request=Request(),
        plan={},
        clock=SimpleNamespace(left_s=left_s, budget_s=1000.0),
        left_out={},
        not_tried={},
        say=lambda text: None,
    )


@pytest.mark.parametrize(
    ("encoder", "left_s", "left_out", "not_tried"),
    [("patches", 1000.0, [], []), ("patches", 200.0, ["baseline"], []), ("network", 200.0, [], ["baseline"])],
)
def test_why_no_network_is_trained(encoder, left_s, left_out, not_tried, monkeypatch):
    monkeypatch.setattr(ladder.rungs, "finished", lambda out, name: False)
    climb = on_the_way(encoder, left_s)
    assert ladder.has_room(climb, "baseline", ladder.too_late, ladder.hopeless) == (not left_out + not_tried)
    assert (list(climb.left_out), list(climb.not_tried)) == (left_out, not_tried)


def test_a_larger_network_is_not_trained_on_a_cpu_after_the_small_one(monkeypatch):
    monkeypatch.setattr(ladder.rungs, "finished", lambda out, name: name == "own_network")
    climb = on_the_way("patches")
    assert not ladder.has_room(climb, "baseline", ladder.too_late, ladder.hopeless)
    assert climb.not_tried == {
        "baseline": "on a CPU, metapl trains the small network; --network trains a larger one instead"
    }
    monkeypatch.setattr(ladder.runtime, "is_cpu", lambda: False)
    assert not ladder.hopeless(climb)
