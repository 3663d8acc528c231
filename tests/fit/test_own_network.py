"""The rung of a small network that only the user's own pictures train, beside patches, even if killed."""

import csv
import json
import os
import shutil
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from safetensors.numpy import load_file

from metapl import config as configs
from metapl.cli import main as cli
from metapl.evaluate import predictor
from metapl.fit import finetuned, fit, head_runs, ladder, own_network, rung
from metapl.fit.request import Request
from metapl.models.whitened import Whitened
from metapl.recipe import own_network as recipe
from metapl.system.signals import Stopped
from tests.fit.pictures import console
from tests.fit.test_fit import KilledError, killed, write_digits

STEM, CONV = "params/stem_conv/kernel", "params/stage1_block0/conv1/kernel"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures of digits; neither heads by our methods nor a larger network are trained."""
    place = tmp_path_factory.mktemp("own")
    write_digits(place / "data", 15, "01234")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.setattr(head_runs, "METHODS", ())
        patch.setattr(ladder, "network_rungs", lambda climb: None)
        yield place


def climb(place: Path, out: str, **changes) -> Path:
    request = {"steps": 4, "mirror": False, "budget": "10m", "features": "patches"} | changes
    fit.fit(str(place / "data"), Request(**request), place / out, console())
    return place / out


@pytest.fixture(scope="module")
def finished(place):
    return climb(place, "whole")


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / own_network.LISTS[name] / "pictures.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def weights(out: Path, name: str) -> dict[str, np.ndarray]:
    return load_file(out / name / "weights.safetensors")


def test_it_is_validated_by_a_fold_and_says_how_many_steps_it_had(finished):
    verdict = json.loads((finished / "verdict.json").read_text("utf-8"))
    row = next(row for row in verdict["ladder"] if row["name"] == "own_network")
    assert row["validation_pictures"] == 12
    assert rung.read(finished, "own_network").remark == "10 steps"


def test_a_fold_validates_it_and_all_labels_train_it(finished):
    known = ~np.isnan(rung.read(finished, "own_network").predictions.validation).any(-1)
    labeled = {name: [row for row in rows(finished, name) if row["split"] == "labeled"] for name in own_network.LISTS}
    assert known.sum() == 12
    assert len(labeled["own-check"]) == 48
    assert len(labeled["own-all"]) == 60
    val = {row["path"] for row in rows(finished, "own-check") if row["split"] == "val"}
    assert len(val) == 12
    assert not val & {row["path"] for name in ("own-given", "own-check") for row in labeled[name]}


def test_it_begins_with_labels_that_aligned_self_training_gives(finished):
    given = [row for row in rows(finished, "own-given") if row["split"] == "labeled"]
    unlabeled = {row["path"] for row in rows(finished, "own-check") if row["split"] == "unlabeled"}
    assert unlabeled < {row["path"] for row in given}
    assert len(given) == 48 + len(unlabeled)


def test_its_runs_go_on_from_each_other_and_its_stem_stays(finished):
    starts = [configs.load(str(finished / name / "config.toml")).init_from for name in own_network.LISTS]
    assert [Path(start).relative_to(finished).parts[0] for start in starts] == [
        "own-start.safetensors",
        "own-given",
        "own-check",
    ]
    before, stems = load_file(finished / own_network.START), [weights(finished, name) for name in own_network.LISTS]
    for after in stems:
        np.testing.assert_array_equal(after[STEM], before[STEM])
        assert (
            np.abs(after["params/stage1_block0/conv1/kernel"] - before["params/stage1_block0/conv1/kernel"]).max() > 0
        )


def test_the_rung_predicts_for_pictures_what_it_was_judged_by(finished):
    model = predictor.load(finished / "own_network")
    with (finished / "pictures.csv").open(newline="", encoding="utf-8") as file:
        test = [row["path"] for row in csv.DictReader(file) if row["split"] == "test"]
    predicted = model.probabilities(np.stack([model.read(Path(path)) for path in test]))
    np.testing.assert_allclose(predicted, np.exp(rung.read(finished, "own_network").predictions.test), atol=0.01)
    assert any(isinstance(one, Whitened) for one in model.config.model.encoder.networks)


def test_the_exported_model_gives_the_same_answers(finished, tmp_path):
    pictures = sorted((finished.parent / "data" / "unlabeled").glob("*.png"))[:5]
    cli.main(["export", str(finished), "--onnx", "--check", str(pictures[0].parent), "--out", str(tmp_path / "export")])
    model = predictor.load(finished)
    some = np.stack([model.read(path) for path in pictures])
    session = onnxruntime.InferenceSession(tmp_path / "export" / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"pictures": some})[0], model.probabilities(some), atol=1e-4)


def test_a_fit_that_is_killed_between_its_runs_gives_the_same(place, finished, monkeypatch):
    for name, function in {"killed-1": "space_with", "killed-2": "write_composed"}.items():
        with monkeypatch.context() as patch:
            patch.setattr(own_network, function, killed)
            with pytest.raises(KilledError):
                climb(place, name)
        out = climb(place, name)
        for run in (*own_network.LISTS, "own_network"):
            assert (out / run / "weights.safetensors").read_bytes() == (
                finished / run / "weights.safetensors"
            ).read_bytes(), run


def test_many_labels_have_a_larger_rate(place, finished, monkeypatch):
    monkeypatch.setattr(finetuned, "MANY", 5)
    few, many = (
        configs.load(str(out / "own-all" / "config.toml")).stages[0].method for out in (finished, climb(place, "many"))
    )
    assert few.optimizer.learning_rate < many.optimizer.learning_rate


def test_without_unlabelled_pictures_it_learns_the_labels_alone(place):
    shutil.copytree(place / "data", place / "labels" / "data")
    shutil.rmtree(place / "labels" / "data" / "unlabeled")
    out = climb(place / "labels", "out")
    stage = configs.load(str(out / "own-all" / "config.toml")).stages[0]
    assert (stage.method.name, (out / "own-given").exists()) == ("supervised", False)
    assert not rung.read(out, "own_network").about.uses_unlabeled


def climb_of(**changes):
    features = SimpleNamespace(
        settings=SimpleNamespace(encoder="patches", size=8),
        labels=np.repeat([0, 1], 6),
        class_names=("a", "b"),
        folds=0,
        fold=np.zeros(12),
    )
    request = Request(**{key: value for key, value in changes.items() if key != "encoder"})
    features.settings.encoder = changes.get("encoder", "patches")
    return SimpleNamespace(features=features, request=request, has_unlabeled=False)


@pytest.mark.parametrize(
    ("changes", "promising"),
    [({}, True), ({"encoder": "efficientnet_lite0"}, False), ({"network": "mlp"}, False), ({"init_from": "x"}, False)],
)
def test_it_is_tried_if_nothing_is_pretrained_and_no_other_network_is_wanted(changes, promising):
    assert own_network.is_promising(climb_of(**changes)) is promising


def test_it_is_not_tried_with_few_labels_of_a_class():
    few = climb_of()
    few.features = SimpleNamespace(**vars(few.features) | {"labels": np.repeat([0, 1], 4), "fold": np.zeros(8)})
    assert not own_network.is_promising(few)


@pytest.mark.parametrize("function", ["read", "measured"])
def test_a_signal_while_steps_are_measured_stops_the_fit(place, monkeypatch, function):
    def signalled(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)  # a thread reads signals
        return own_network.probe.Probe(1.0, 1.0)

    monkeypatch.setattr(own_network.probe, "measured", lambda *_: own_network.probe.Probe(1.0, 1.0))
    monkeypatch.setattr(own_network.probe, function, signalled)
    with pytest.raises(Stopped):
        climb(place, f"signalled-{function}", steps=0)
    assert not (place / f"signalled-{function}" / "own-given").exists()


def test_foreign_pictures_do_not_shape_the_stem(place, finished, monkeypatch):
    asked = []
    monkeypatch.setattr(own_network, "take", lambda images, rows: asked.append(rows) or images)
    monkeypatch.setattr(own_network.network, "batches", lambda *_: [np.zeros((1, 8, 8, 1), np.uint8)])
    some = SimpleNamespace(
        labels=np.arange(3),
        used=np.array([5, 9]),
        settings=SimpleNamespace(size=8),
        prepared=SimpleNamespace(pictures=SimpleNamespace(images=lambda role: role)),
    )
    own_network.sample(SimpleNamespace(features=some))
    assert [rows.tolist() for rows in asked] == [[0, 1, 2], [5, 9]]


@pytest.mark.parametrize(("counts", "aligned"), [([10, 29], True), ([10, 30], False), ([0, 1], True)])
def test_labels_are_aligned_to_equal_shares_only_if_the_classes_are_balanced(counts, aligned):
    data = recipe.Data(39, 100, many=False, balanced=own_network.is_balanced(np.array(counts)))
    assert recipe.settings(configs.Config(), 10, data).stages[0].method.alignment is aligned


def test_a_single_unlabelled_picture_is_not_learnt():
    data = recipe.Data(39, 1, many=False, balanced=True)
    assert recipe.settings(configs.Config(), 10, data).stages[0].method.name == "supervised"


def test_it_is_left_out_if_there_is_too_little_time(place):
    out = climb(place, "short", steps=0, budget="40s")
    assert not (out / "own-check").exists()
    verdict = json.loads((out / "verdict.json").read_text("utf-8"))
    assert "own_network" in json.dumps(verdict["left_out"])


def test_measured_steps_fill_the_time(monkeypatch):
    plan = {}
    monkeypatch.setattr(own_network, "listening", lambda _: nullcontext(SimpleNamespace(check=lambda *_: None)))
    climb = SimpleNamespace(
        plan=SimpleNamespace(get=plan.get, decide=lambda name, value: plan.setdefault(name, value)),
        request=Request(),
        has_unlabeled=False,
        features=None,
        out=Path(),
    )
    for name, value in {"write_start": None, "heads_s": 10.0}.items():
        monkeypatch.setattr(own_network, name, lambda _, value=value: value)
    monkeypatch.setattr(own_network, "run_settings", lambda *_: configs.Config())
    monkeypatch.setattr(own_network.network, "write_list", lambda *_, **__: None)
    monkeypatch.setattr(own_network.probe, "read", lambda *_: None)
    monkeypatch.setattr(own_network.probe, "measured", lambda *_: own_network.probe.Probe(10.0, 0.1))
    monkeypatch.setattr(own_network.time, "monotonic", lambda: 100.0)
    assert own_network.planned_steps(climb, 336.0) == 1000  # (236 − 10 − 2 · 13) / 2 / 0.1
    assert own_network.planned_steps(climb, 0.0) == 1000  # decided once
