"""The rung that finetunes the pretrained network: from a linear head on, validated by a fold, even if killed."""

import csv
import dataclasses
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from metapl import config as configs
from metapl import models
from metapl.data.sources.features import Features
from metapl.evaluate import predictor
from metapl.features import network as encoders
from metapl.fit import (
    companions,
    conclude,
    encode,
    finetune_time,
    finetuned,
    fit,
    head_runs,
    joint,
    joint_space,
    ladder,
    network,
    rung,
)
from metapl.fit.climb import Climb
from metapl.fit.clock import Clock
from metapl.fit.kept_features import RoleFeatures
from metapl.fit.plan import Plan
from metapl.fit.request import Request
from metapl.models import convolution, efficientnet, onednn
from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.recipe import aligned
from metapl.recipe import finetuned as recipe
from metapl.schema import ConfigError, to_dict
from metapl.weights import save
from tests.fit.pictures import console
from tests.fit.test_fit import NAMES, KilledError, killed, write_digits

TINY = EfficientNetLite(width=0.1, depth=0.1)
ROLES = ("labeled", "val", "unlabeled")
RUNS = ("finetuned-check", "finetuned-all")
HEAD = "params/group0_0"
BOTH = "joint_finetuned"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures of digits, and the weights of a tiny network."""
    place = tmp_path_factory.mktemp("finetuned")
    write_digits(place / "data", 15, "01234")
    with pytest.MonkeyPatch.context() as patch:
        # It is traced twenty times: fewer stages, and depthwise convolutions as one operation instead of 25.
        patch.setattr(efficientnet, "STAGES", efficientnet.STAGES[:3])
        patch.setattr(
            convolution, "depthwise", lambda x, w, geometry: onednn.by_xla(x, w, kind="forward", geometry=geometry)
        )
        weights = jax.jit(models.build(TINY, 3).init)(jax.random.key(0), jnp.zeros((1, 16, 16, 3)))
        save(place / "tiny.safetensors", weights, to_dict(TINY), ("a", "b", "c"))
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.setattr(head_runs, "METHODS", ())
        patch.setattr(encoders, "SIDE", 16)
        patch.setattr(ladder, "network_rungs", lambda climb: None)
        patch.setattr(ladder, "finetuned_mpl_rung", lambda climb: None)
        patch.setattr(finetuned, "MANY", 5)
        yield place


def climb(place: Path, out: str, **changes) -> Path:
    request = {"steps": 3, "mirror": False, "budget": "10m", "init_from": str(place / "tiny.safetensors")} | changes
    fit.fit(str(place / "data"), Request(**request), place / out, console())
    return place / out


@pytest.fixture(scope="module")
def finished(place):
    return climb(place, "whole")


@pytest.fixture(scope="module")
def with_few_labels(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetuned, "MANY", 50)
        return climb(place, "few")


def lists(out: Path) -> list[dict[str, dict[str, str]]]:
    """The labels of the pictures by role and path, of both runs."""
    both = []
    for name in RUNS:
        with (out / finetuned.LISTS[name] / "pictures.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        both.append({role: {row["path"]: row["label"] for row in rows if row["split"] == role} for role in ROLES})
    return both


def of_folder(labels: dict[str, str], folder: str) -> dict[str, str]:
    return {path: label for path, label in labels.items() if folder in Path(path).parts}


def test_a_fold_validates_it_and_all_labels_train_it(finished):
    check, whole = lists(finished)
    known = ~np.isnan(rung.read(finished, "finetuned").predictions.validation).any(-1)
    assert len(check["val"]) == known.sum() == 12
    assert len(check["labeled"]) == 48
    assert of_folder(whole["labeled"], "labeled") == check["labeled"] | check["val"]


def test_with_many_labels_the_first_run_labels_the_unlabelled_pictures_for_the_second(finished):
    check, whole = lists(finished)
    given = of_folder(whole["labeled"], "unlabeled")
    assert given.keys() == check["unlabeled"].keys()
    assert not of_folder(check["labeled"], "unlabeled")
    views = [configs.load(str(finished / name / "config.toml")).stages[0].method.view for name in RUNS]
    assert views == ["weak", "strong"]
    assert rung.read(finished, "finetuned").about.uses_unlabeled


def test_with_few_labels_aligned_self_training_labels_them_for_the_first_run(finished, with_few_labels):
    many, few = lists(finished)[0], lists(with_few_labels)[0]
    given = of_folder(few["labeled"], "unlabeled")
    assert given.keys() == many["unlabeled"].keys()
    assert of_folder(few["labeled"], "labeled") == many["labeled"]
    truth = load_digits().target
    assert np.mean([NAMES[truth[int(Path(path).stem)]] == label for path, label in given.items()]) > 0.5
    starts = [load_file(out / "finetuned-start" / "weights.safetensors") for out in (finished, with_few_labels)]
    assert np.abs(starts[0]["params/group0_0/kernel"] - starts[1]["params/group0_0/kernel"]).max() > 0.01


def test_labels_are_given_in_the_shares_of_aligned_self_training(monkeypatch):
    usual = np.repeat([[0.0, -1.0], [-1.0, 0.0]], 50, axis=0)  # half of the pictures are of each class
    monkeypatch.setattr(finetuned, "kept_heads", lambda folder: [])
    monkeypatch.setattr(finetuned, "log_probabilities", lambda heads, features: usual)
    odds = np.linspace(0.1, 4.0, 100)  # a model that is surer of some, and prefers the first class for all
    predicted = np.log(np.stack([odds / (1 + odds), 1 / (1 + odds)], -1))[::-1]
    given = finetuned.labels_by(SimpleNamespace(out=Path(), features=SimpleNamespace(unlabeled=None)), predicted)
    assert abs(given.mean() - 0.5) < 0.15
    assert predicted.argmax(-1).mean() < 0.3
    assert (np.diff(given) >= 0).all()  # those that it is surest of keep their class


def labels_of_test(out: Path) -> np.ndarray:
    with (out / "pictures.csv").open(newline="", encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file) if row["split"] == "test"]
    return np.array([json.loads((out / "data.json").read_text())["class_names"].index(label) for label in labels])


def test_its_runs_go_on_from_each_other_with_frozen_norms(finished):
    begun = {name: configs.load(str(finished / name / "config.toml")) for name in RUNS}
    starts = [Path(config.init_from).parent.name for config in begun.values()]
    assert starts == ["finetuned-start", "finetuned-check"]
    assert all(config.model.frozen_norms for config in begun.values())


@pytest.mark.parametrize(
    ("labels", "before", "moved"), [("finished", "linear", 0.75), ("with_few_labels", "aligned", 0.5)]
)
def test_its_weights_are_between_the_heads_and_the_finetuned_network(labels, before, moved, request):
    out = request.getfixturevalue(labels)
    start, end, rung = (
        load_file(out / name / "weights.safetensors") for name in (before, "finetuned-all", "finetuned")
    )
    assert rung.keys() == start.keys() == end.keys()
    for name, weights in rung.items():
        if not name.startswith(HEAD):
            np.testing.assert_allclose(weights, (1 - moved) * start[name] + moved * end[name], rtol=1e-5, atol=1e-6)
    assert np.abs(start[f"{HEAD}/kernel"] - end[f"{HEAD}/kernel"]).max() > 1e-4


def test_its_head_is_trained_on_its_own_features_with_aligned_labels(with_few_labels):
    model = predictor.load(with_few_labels / "finetuned")
    with (with_few_labels / "pictures.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    features = {
        role: model.features(np.stack([model.read(Path(row["path"])) for row in rows if row["split"] == role]))
        for role in ("labeled", "unlabeled")
    }
    labels = np.array([model.class_names.index(row["label"]) for row in rows if row["split"] == "labeled"])
    head = aligned.self_training(features["labeled"], labels, features["unlabeled"], len(model.class_names))
    trained = np.asarray(head.weights.params["Dense_0"]["bias"])
    own = np.asarray(model.weights.params["group0_0"]["bias"])
    start, end = (load_file(with_few_labels / name / "weights.safetensors") for name in ("aligned", "finetuned-all"))
    between = (start[f"{HEAD}/bias"] + end[f"{HEAD}/bias"]) / 2
    assert np.linalg.norm(own - trained) < 0.2 * np.linalg.norm(own - between)


def test_without_unlabelled_pictures_its_head_is_between_the_two_as_well(place, monkeypatch):
    monkeypatch.setattr(finetuned, "learns_unlabeled", lambda climb: False)
    out = climb(place, "labels_alone")
    start, end, rung = (
        load_file(out / name / "weights.safetensors")[f"{HEAD}/kernel"]
        for name in ("linear", "finetuned-all", "finetuned")
    )
    np.testing.assert_allclose(rung, 0.25 * start + 0.75 * end, rtol=1e-5, atol=1e-6)
    assert not np.isnan(finetuned.rungs.read(out, "finetuned").predictions.validation).all()


def test_it_predicts_what_it_was_judged_by(finished):
    model = predictor.load(finished / "finetuned")
    pictures = sorted((finished.parent / "data" / "labeled").rglob("*.png"))[:3]
    assert model.probabilities(np.stack([model.read(path) for path in pictures])).shape == (3, 5)
    measured = rung.read(finished, "finetuned").predictions.test
    assert json.loads((finished / "finetuned" / "result.json").read_text())["accuracy"] == pytest.approx(
        float((measured.argmax(-1) == labels_of_test(finished)).mean())
    )


def test_it_starts_from_logistic_regression_and_keeps_early_layers_and_statistics(finished):
    start, end = (load_file(finished / name / "weights.safetensors") for name in ("finetuned-start", "finetuned-check"))
    moved = {name: float(np.abs(start[name] - end[name]).max()) for name in start}
    staying = ("batch_stats/", "params/scale/", "params/encoder/stem", "params/encoder/stage0")
    assert not any(moved[name] for name in start if name.startswith(staying))
    assert 0 < moved["params/group0_0/kernel"] <= 3 * 1.1 * recipe.RATE  # AdamW's first steps are as long as its rate
    assert 0 < moved["params/encoder/head_conv/kernel"] < moved["params/group0_0/kernel"] * 1.01


def killing_before_the_second_run(train):
    def killing(out, *rest):
        if out.name == "finetuned-all":
            killed()
        train(out, *rest)

    return killing


def test_a_kill_between_its_runs_changes_nothing(place, finished, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(finetuned, "train", killing_before_the_second_run(finetuned.train))
        with pytest.raises(KilledError):
            climb(place, "killed")
    out = climb(place, "killed")
    assert (out / "finetuned" / "weights.safetensors").read_bytes() == (
        finished / "finetuned" / "weights.safetensors"
    ).read_bytes()


def predictions_of(out: Path, name: str) -> np.ndarray:
    """What the run of a rung predicts for the test pictures."""
    model = predictor.load(out / name)
    with (out / "pictures.csv").open(newline="", encoding="utf-8") as file:
        tested = [Path(row["path"]) for row in csv.DictReader(file) if row["split"] == "test"]
    return model.probabilities(np.stack([model.read(path) for path in tested]))


def has_same_encoder(both: dict[str, np.ndarray], place: int, single: dict[str, np.ndarray]) -> None:
    own = {name: weights for name, weights in single.items() if "/encoder/" in name}
    assert len(own) > 10
    for name, weights in own.items():
        np.testing.assert_array_equal(both[name.replace("/encoder/", f"/encoder/networks_{place}/")], weights)


def test_both_networks_under_one_head_keep_their_weights_and_predict_what_they_were_judged_by(with_few_labels):
    both, frozen, tuned = (
        load_file(with_few_labels / name / "weights.safetensors") for name in (BOTH, "aligned", "finetuned")
    )
    has_same_encoder(both, 0, frozen)
    has_same_encoder(both, 1, tuned)
    judged = rung.read(with_few_labels, BOTH).predictions
    predicted = predictions_of(with_few_labels, BOTH)
    np.testing.assert_allclose(predicted, np.exp(judged.test), atol=0.02)  # it was judged on rounded features
    assert json.loads((with_few_labels / "model.json").read_text())["run"] == BOTH


def test_both_networks_are_validated_by_a_head_and_a_network_that_have_not_seen_the_fold(
    place, with_few_labels, monkeypatch
):
    heads, train = [], joint.classical.aligned_training
    monkeypatch.setattr(
        joint.classical, "aligned_training", lambda x, y, *rest: heads.append((x, y)) or train(x, y, *rest)
    )
    monkeypatch.setattr(joint, "write_composed", lambda *args: None)
    spaces, join = [], joint_space.join
    monkeypatch.setattr(joint_space, "join", lambda parts: spaces.append(parts) or join(parts))
    on_it = begun(place, with_few_labels)
    predictions = joint.train_with_finetuned(on_it, lambda: None)
    assert [len(y) for _, y in heads] == [48, 60]
    check, whole = (np.load(with_few_labels / name / "features.npz")["labeled"] for name in RUNS)
    for (_, tuned), own in zip(spaces, (check, whole), strict=True):
        np.testing.assert_array_equal(tuned.seen.labeled, own)
    held = network.held_out(on_it.features)
    np.testing.assert_array_equal(~np.isnan(predictions.validation).any(-1), held)


def begun(place: Path, out: Path) -> Climb:
    """A climb that has encoded its pictures."""
    request = Request(mirror=False, init_from=str(place / "tiny.safetensors"))
    facts = json.loads((out / "data.json").read_text())
    on_it = Climb(out, request, facts, Clock(600.0, 0.0), console(), Plan(out))
    encode.encode_labeled(on_it)
    encode.encode_unlabeled(on_it)
    return on_it


@pytest.fixture(scope="module")
def with_companion(place):
    """A fit of a network and a companion: the same one with other weights."""
    with pytest.MonkeyPatch.context() as patch:
        weights = jax.jit(models.build(TINY, 3).init)(jax.random.key(1), jnp.zeros((1, 16, 16, 3)))
        save(place / "other.safetensors", weights, to_dict(TINY), ("a", "b", "c"))
        let_it_have_a_companion(place, patch)
        return climb(place, "companion")


def let_it_have_a_companion(place: Path, patch: pytest.MonkeyPatch) -> None:
    other = str(place / "other.safetensors")
    patch.setattr(
        companions, "candidates", lambda climb: [dataclasses.replace(climb.features.settings, init_from=other)]
    )
    patch.setattr(finetuned, "MANY", 50)


def test_several_pretrained_networks_are_a_rung_of_their_own(with_companion):
    ladder_of = json.loads((with_companion / "ladder.json").read_text())
    assert ladder_of.index("aligned") < ladder_of.index("joint") < ladder_of.index("finetuned")
    both, frozen = (load_file(with_companion / name / "weights.safetensors") for name in ("joint", "aligned"))
    has_same_encoder(both, 0, frozen)
    name = "params/encoder/networks_1/head_conv/kernel"
    assert np.abs(both[name] - frozen["params/encoder/head_conv/kernel"]).max() > 0.01
    predictions = rung.read(with_companion, "joint").predictions
    np.testing.assert_allclose(predictions_of(with_companion, "joint"), np.exp(predictions.test), atol=0.02)
    assert not np.isnan(predictions.validation).any()  # each fold was predicted by heads of the others


def test_without_unlabelled_pictures_one_head_learns_the_labels_on_all_networks(place, monkeypatch):
    let_it_have_a_companion(place, monkeypatch)
    shutil.copytree(place / "data", place / "labels", ignore=shutil.ignore_patterns("unlabeled"))
    request = Request(steps=3, mirror=False, budget="10m", init_from=str(place / "tiny.safetensors"))
    fit.fit(str(place / "labels"), request, place / "of_labels", console())
    verdict = json.loads((place / "of_labels" / "verdict.json").read_text())
    assert verdict["recommended"] == "joint"
    assert not any(row["uses_unlabeled"] for row in verdict["ladder"])
    judged = rung.read(place / "of_labels", "joint").predictions
    np.testing.assert_allclose(predictions_of(place / "of_labels", "joint"), np.exp(judged.test), atol=0.02)


def test_only_heads_on_the_same_features_are_an_ensemble(with_companion, place, monkeypatch, tmp_path):
    on_it = begun(place, Path(shutil.copytree(with_companion, tmp_path / "copy")))
    monkeypatch.setattr(ladder.select, "together", lambda rungs, labels: rungs)
    ladder.ensemble(on_it)
    members = rung.read(on_it.out, "ensemble").remark.split(" + ")
    assert {rung.TITLES[name] for name in ("linear", "aligned")} <= set(members)
    assert not {rung.TITLES[name] for name in ("joint", "finetuned", BOTH)} & set(members)


def test_all_networks_look_for_wrong_labels(with_companion, place, monkeypatch):
    suspected = []
    monkeypatch.setattr(conclude.hints, "suspected", lambda logits, *rest: suspected.append(logits))
    conclude.label_errors(begun(place, with_companion), BOTH)  # which has seen all labels but those of one fold
    np.testing.assert_array_equal(suspected[0], rung.read(with_companion, "joint").predictions.validation)


def test_all_networks_label_the_pictures_that_finetuning_learns(with_companion, place, monkeypatch):
    three = load_file(with_companion / BOTH / "weights.safetensors")
    assert "params/encoder/networks_2/head_conv/kernel" in three
    let_it_have_a_companion(place, monkeypatch)
    on_it, asked = begun(place, with_companion), []
    train = joint.classical.aligned_training
    monkeypatch.setattr(finetuned, "write_composed", lambda *args: None)
    monkeypatch.setattr(
        finetuned.classical, "aligned_training", lambda x, y, *rest: asked.append((x, y)) or train(x, y, *rest)
    )
    given = finetuned.write_start(on_it)
    (alone, y), (together, y_too) = asked
    examples = len(on_it.features.labels) + len(on_it.features.unlabeled)
    assert together.shape[1] == 2 * min(examples, alone.shape[1])  # as many directions of each network
    np.testing.assert_array_equal(y, y_too)  # without the first fold
    assert len(y) == 48
    labels = lists(with_companion)[0]["labeled"]
    assert [NAMES.index(labels[path]) for path in of_folder(labels, "unlabeled")] == sorted_by_path(
        on_it, given, labels
    )


def sorted_by_path(climb: Climb, given: np.ndarray, labels: dict[str, str]) -> list[int]:
    images = climb.features.prepared.pictures.images("unlabeled")
    by_name = {images.name(int(row)): int(label) for row, label in zip(climb.features.used, given, strict=True)}
    return [by_name[path] for path in of_folder(labels, "unlabeled")]


def test_a_fit_with_a_companion_that_is_killed_between_the_runs_gives_the_same(place, with_companion, monkeypatch):
    let_it_have_a_companion(place, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(finetuned, "train", killing_before_the_second_run(finetuned.train))
        with pytest.raises(KilledError):
            climb(place, "killed_companion")
    out = climb(place, "killed_companion")
    for name in ("joint", "finetuned", BOTH):
        whole, again = (folder / name / "weights.safetensors" for folder in (with_companion, out))
        assert whole.read_bytes() == again.read_bytes()


@pytest.fixture
def lite(monkeypatch):
    """A climb on features of EfficientNet-Lite2, which take 8 ms a picture; the other networks are installed, too."""
    on_it, decided = with_unlabeled(4000), {"view_s": 0.008}
    on_it.plan = SimpleNamespace(get=decided.get, decide=decided.setdefault)
    on_it.clock, on_it.left_s, on_it.out = SimpleNamespace(budget_s=900), 800, Path("out")
    on_it.features.settings = Features(encoder="efficientnet_lite2")
    on_it.features.unlabeled = np.zeros((4000, 1280), np.float32)
    monkeypatch.setattr(companions.packages, "installed", lambda name: True)
    monkeypatch.setattr(companions.rungs, "read", lambda out, name: SimpleNamespace(seconds=4.0))
    return on_it


ONE, TWO = ["efficientnet_lite1"], ["efficientnet_lite1", "efficientnet_lite0"]


@pytest.mark.parametrize(
    ("budget_s", "left_s", "expected"), [(900, 800, TWO), (450, 400, ONE), (900, 140, ONE), (200, 150, [])]
)
def test_there_are_as_many_companions_as_there_is_time_for(lite, budget_s, left_s, expected, monkeypatch):
    lite.clock, lite.left_s = SimpleNamespace(budget_s=budget_s), left_s
    assert [one.encoder for one in companions.chosen(lite)] == expected
    lite.clock, lite.left_s = SimpleNamespace(budget_s=1e6), 1e6
    # After a kill they are the same; a larger budget may allow some if there were none.
    assert [one.encoder for one in companions.chosen(lite)] == (expected or TWO)
    monkeypatch.setattr(companions.packages, "installed", lambda name: name == "efficientnet_lite0")
    assert [one.encoder for one in companions.chosen(lite)] == (expected or TWO)


@pytest.mark.parametrize(("free", "expected"), [(10**9, TWO), (80 * 10**6, ONE), (10**6, []), (None, TWO)])
def test_there_are_as_many_companions_as_there_is_memory_for(lite, free, expected, monkeypatch):
    """4,300 pictures: one takes 84 MB, two take 114."""
    monkeypatch.setattr(companions.memory, "memory", lambda: (10**10, free))
    assert [one.encoder for one in companions.chosen(lite)] == expected


@pytest.mark.parametrize(("plan", "expected_s"), [({}, 0.006), ({"read_s": 0.07}, 0.076), ({"encoded_s": 0.16}, 0.158)])
def test_reading_large_photos_counts(lite, plan, expected_s, monkeypatch):
    lite.plan = SimpleNamespace(get=({"view_s": 0.008} | plan).get)
    monkeypatch.setattr(companions.encoder, "FACTORS", {"efficientnet_lite2": 4.0, "efficientnet_lite1": 3.0})
    assert companions.picture_s(lite, Features(encoder="efficientnet_lite1")) == pytest.approx(expected_s)


def test_a_network_that_cannot_be_read_does_not_end_the_fit(with_companion, place, monkeypatch, tmp_path):
    let_it_have_a_companion(place, monkeypatch)
    shutil.copytree(
        with_companion, tmp_path / "copy", ignore=shutil.ignore_patterns("joint*", "finetuned*", "plan.json")
    )
    on_it = begun(place, tmp_path / "copy")

    def damaged(climb):
        raise ConfigError("the file is damaged")

    monkeypatch.setattr(companions, "encode_all", damaged)
    ladder.joint_rung(on_it)
    assert on_it.skipped == {"joint": "the file is damaged"}


def test_no_network_is_added_once_finetuning_has_begun(finished, place, monkeypatch):
    let_it_have_a_companion(place, monkeypatch)
    on_it = begun(place, finished)
    on_it.left_out["joint"] = "there was too little time"  # it had been, in the session that finetuned
    ladder.go_on(on_it)
    assert "finetuned without the others" in on_it.skipped["joint"]
    assert "joint" not in on_it.left_out
    assert not rung.finished(finished, "joint")
    monkeypatch.setattr(companions, "candidates", lambda climb: [])  # there are none: nothing to say
    on_it.skipped.clear()
    ladder.go_on(on_it)
    assert "joint" not in on_it.skipped


@pytest.mark.parametrize(("left_s", "expected"), [(25.0, "it would have taken about 26 s"), (27.0, "")])
def test_heads_on_all_networks_are_not_begun_if_there_is_no_time(lite, left_s, expected, monkeypatch, tmp_path):
    """Two heads on four networks, 9/4 s each, and a second for the directions of each network."""
    (tmp_path / "joint").mkdir()
    (tmp_path / "joint" / "rung.json").touch()
    monkeypatch.setattr(joint.rungs, "read", lambda out, name: SimpleNamespace(seconds=9.0))
    companions.chosen(lite)
    lite.out, lite.left_s, lite.features.folds = tmp_path, left_s, 3
    assert joint.why_not_joined(lite) == expected


def test_a_fit_that_was_killed_with_no_time_left_gives_its_verdict(finished, place, monkeypatch, tmp_path):
    out = Path(shutil.copytree(finished, tmp_path / "copy"))
    for name in ("verdict.json", "label_next.csv"):
        (out / name).unlink()
    monkeypatch.setattr(Clock, "left_s", property(lambda clock: -1.0))
    climb(place, str(out))
    whole, again = (json.loads((folder / "verdict.json").read_text()) for folder in (finished, out))
    assert again["recommended"] == whole["recommended"] == BOTH
    assert again["label_next"] == whole["label_next"] != []


@pytest.mark.parametrize("changed", [{"features": "efficientnet_lite2"}, {"init_from": "efficientnet_lite2"}])
def test_who_chooses_an_encoder_gets_no_other(changed):
    climb = with_unlabeled(4000)
    climb.features.settings, climb.request = Features(encoder="efficientnet_lite2"), Request(**changed)
    assert not companions.candidates(climb)


@pytest.mark.parametrize("stretched", [1.0, 50.0])
def test_all_networks_count_the_same_in_one_space_and_a_head_on_it_is_one_on_them(stretched):
    draw = np.random.default_rng(0)
    roles = {role: draw.normal(size=(20, 3)).astype(np.float32) for role in ("labeled", "val", "test", "unlabeled")}
    first, second = RoleFeatures(**roles), RoleFeatures(**{role: stretched * x + 7 for role, x in roles.items()})
    space = joint_space.join([joint_space.Part(None, first), joint_space.Part(None, second)])
    z = np.concatenate([space.seen.labeled, space.seen.unlabeled])
    squares = [np.square(x - x.mean(0)).sum(-1).mean() for x in (z[:, :3], z[:, 3:])]
    assert squares == pytest.approx([1280, 1280], rel=1e-3)


def on_the_way(labels: int, left_s: float, encoder: str = "network") -> SimpleNamespace:
    features = SimpleNamespace(
        folds=0,
        labels=np.arange(labels) % 2,
        class_names=("a", "b"),
        test=[],
        val=[],
        used=np.arange(0),
        settings=SimpleNamespace(encoder=encoder),
    )
    plan = SimpleNamespace(get={"view_s": 0.01}.get)
    return SimpleNamespace(
        out=Path("nowhere"), features=features, plan=plan, request=Request(), left_s=left_s, has_unlabeled=True
    )


def test_it_is_left_out_if_the_time_is_too_short():
    said = finetuned.why_no_time(on_the_way(100, 132.0))
    assert said == "finetuning the pretrained network would have taken at least 1 min 47 s"
    assert not finetuned.why_no_time(on_the_way(100, 135.0))


def test_it_is_left_out_if_the_steps_that_were_asked_for_take_too_long():
    """A step of 16 pictures takes 112 times as long as encoding one."""
    asked = on_the_way(100, 132.0)
    asked.request = Request(steps=200)
    each_s = finetune_time.step_s(asked, 16)
    asked.left_s = 399 * each_s
    assert finetuned.why_no_time(asked).startswith("400 steps would have taken")
    asked.left_s = 401 * each_s
    assert not finetuned.why_no_time(asked)


def with_unlabeled(count: int) -> SimpleNamespace:
    climb = on_the_way(100, 0.0)
    climb.features.used = np.arange(count)
    return climb


# A step takes 7 B v; two runs of 40 steps with 60 s of compiling each: 299 s with 32 pictures, 210 s with 16.
@pytest.mark.parametrize(
    ("left_s", "expected"),
    [(1e4, (32, 5000)), (364.7, (16, 5000)), (277.61, (16, 3300)), (232.61, (16, 1050)), (230.0, None)],
)
def test_batches_and_pictures_are_fewer_if_there_is_little_time(left_s, expected):
    assert finetune_time.choose(with_unlabeled(10_000), (32, 16), True, left_s) == expected


def test_all_pictures_that_were_encoded_say_how_fast_the_machine_is():
    climb = with_unlabeled(4000)
    climb.plan.get = {"view_s": 0.04, "encoded_s": 0.02}.get
    assert finetune_time.step_s(climb, 16) == pytest.approx(finetune_time.WORK * 16 * 0.02)


def test_it_takes_no_longer_than_there_is_time():
    climb = with_unlabeled(4000)
    for left_s in np.linspace(233.0, 500.0, 20):
        size = finetune_time.choose(climb, (32, 16), True, left_s)
        assert finetune_time.least_s(climb, size, True) <= left_s
        assert size.judged == 4000 or finetune_time.least_s(climb, size._replace(judged=size.judged + 2), True) > left_s


@pytest.mark.parametrize(("steps", "expected"), [(None, 16), (12, 32)])
def test_batches_are_small_if_there_is_little_time_and_nobody_asked_for_steps(steps, expected, monkeypatch):
    climb, decided = with_unlabeled(4000), {"view_s": 0.01}
    climb.plan = SimpleNamespace(get=decided.get, decide=decided.setdefault)
    climb.request = Request(steps=steps)
    monkeypatch.setattr(finetuned, "started_from", lambda climb: None)
    monkeypatch.setattr(finetuned.encoded, "judging", lambda some, most: most)
    monkeypatch.setattr(finetuned.finetune_memory, "lacking", lambda model, pictures: "")
    finetuned.settle(climb, 1.0)
    assert decided["finetune_batch"] == expected
    assert climb.encoded == (4000 if steps else 1000)
    finetuned.settle(climb, 1e4)
    assert decided["finetune_batch"] == expected


def test_the_time_of_a_step_is_without_compiling():
    assert finetuned.measured_step_s(220.0, 100) == 2.0
    assert finetuned.measured_step_s(30.0, 10) == 1.5
    assert finetuned.steps_in(260.0, 2.0, 50) == 100
    assert finetuned.steps_in(-5.0, 2.0, 20) == 20


@pytest.mark.parametrize(
    ("labels", "encoder", "expected"), [(100, "network", 1), (99, "network", 0), (100, "patches", 0)]
)
def test_it_needs_many_labels_and_a_pretrained_network(labels, encoder, expected, monkeypatch):
    monkeypatch.setattr(finetuned, "MANY", 50)
    assert finetuned.is_promising(on_the_way(labels, 600.0, encoder)) == bool(expected)


@pytest.mark.parametrize(("labels", "expected"), [(9, 0), (10, 1)])
def test_with_labels_for_unlabelled_pictures_it_needs_few(labels, expected, monkeypatch):
    monkeypatch.setattr(finetuned.rungs, "finished", lambda out, name: name == "aligned")
    assert finetuned.is_promising(on_the_way(labels, 600.0)) == bool(expected)


def test_with_little_time_it_learns_fewer_pictures_and_after_a_kill_the_same(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(finetuned, "train", killing_before_the_second_run(finetuned.train))
        patch.setattr(finetune_time, "most_judged", lambda some: 20)
        with pytest.raises(KilledError):
            climb(place, "short")
    out = climb(place, "short")
    given = of_folder(lists(out)[1]["labeled"], "unlabeled")
    assert len(given) == 20
    assert len(of_folder(lists(out)[0]["unlabeled"], "unlabeled")) > 20
    for name in ("finetuned", BOTH):
        assert len(rung.read(out, name).predictions.unlabeled) == 20
    assert "20 of" in rung.read(out, "finetuned").remark
    suggested = {row["path"] for row in json.loads((out / "verdict.json").read_text())["label_next"]}
    assert suggested <= given.keys()


@pytest.mark.parametrize(("steps", "left_s", "expected"), [(None, 99.0, 0), (None, 101.0, 1), (12, 0.0, 1)])
def test_the_second_run_is_left_out_if_there_is_no_time_for_it(steps, left_s, expected):
    decided = {}
    on_it = SimpleNamespace(request=Request(steps=steps), plan=SimpleNamespace(decide=decided.setdefault))
    assert finetuned.last_run(on_it, left_s, 2.0) == RUNS[expected]
    assert finetuned.last_run(on_it, 1000.0 - left_s, 2.0) == RUNS[expected]  # a session that continues


def test_without_a_second_run_the_rung_has_the_weights_of_the_first_and_a_head_of_all_labels(place, monkeypatch):
    monkeypatch.setattr(finetuned, "last_run", lambda climb, *rest: climb.plan.decide("finetune_last", RUNS[0]))
    out = climb(place, "first_run_alone")
    assert not (out / RUNS[1]).exists()
    start, end, mean = (load_file(out / name / "weights.safetensors") for name in ("linear", RUNS[0], "finetuned"))
    name = "params/encoder/head_conv/kernel"
    np.testing.assert_allclose(mean[name], 0.25 * start[name] + 0.75 * end[name], rtol=1e-5, atol=1e-6)
    model, judged = predictor.load(out / "finetuned"), rung.read(out, "finetuned").predictions
    with (out / "pictures.csv").open(newline="", encoding="utf-8") as file:
        tested = [Path(row["path"]) for row in csv.DictReader(file) if row["split"] == "test"]
    predicted = model.probabilities(np.stack([model.read(path) for path in tested]))
    np.testing.assert_allclose(predicted, np.exp(judged.test), atol=0.02)
    assert json.loads((out / "model.json").read_text())["run"] == BOTH


def test_the_features_of_a_fit_by_an_earlier_version_are_those_of_its_second_run(monkeypatch):
    asked = []
    monkeypatch.setattr(finetuned.kept_features, "of_run", lambda climb, run, *rest: asked.append(run))
    for last in (None, "finetuned-all"):
        plan, features = SimpleNamespace(get={"finetune_last": last}.get), SimpleNamespace(judged_pictures=[])
        finetuned.features_of_rung(SimpleNamespace(plan=plan, features=features), None)
    assert asked == ["finetuned-all"] * 2
