"""Patches of the user's own pictures beside a pretrained network: when they are used, and how much they count."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from metapl.data.sources.features import Features
from metapl.fit import companions, joint, own_patches, rung
from metapl.models import packages
from metapl.models.patches import Patches
from metapl.models.wide_resnet import WideResNet
from tests.fit.test_finetuned import KilledError, begun, climb, killed, place, predictions_of  # noqa: F401

FEW = {"centroids": 16, "code": "near", "grid": 3, "overlap": True, "components": 12}


def clusters(spread: float, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, each around a point of its own."""
    draw, y = np.random.default_rng(0), np.arange(count) % 3
    return (8 * np.eye(3)[y] + spread * draw.normal(size=(count, 3))).astype(np.float32), y.astype(np.int32)


def test_alignment_is_high_if_classes_are_clusters_and_zero_if_they_are_not():
    x, y = clusters(0.5)
    assert own_patches.alignment(x, y) > 0.9
    assert abs(own_patches.alignment(x, np.random.default_rng(1).permutation(y))) < 0.1
    assert own_patches.alignment(x, 0 * y) == 0
    assert own_patches.alignment(0 * x, y) == 0


def test_alignment_is_the_correlation_over_pairs():
    x, y = clusters(6.0, 20)
    near = x - x.mean(0)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    pairs = [(near[p] @ near[q], y[p] == y[q]) for q in range(20) for p in range(q)]
    assert own_patches.alignment(x, y) == pytest.approx(np.corrcoef(np.array(pairs, float).T)[0, 1], abs=1e-6)


def test_they_count_as_much_as_they_tell_the_classes_apart():
    (good, y), (bad, _) = clusters(2.0), clusters(9.0)
    ratio = own_patches.alignment(bad, y) / own_patches.alignment(good, y)
    assert own_patches.weight(bad, good, y) == pytest.approx(ratio**2, abs=1e-3)
    assert own_patches.weight(bad, good, y) < own_patches.LEAST
    assert own_patches.weight(good, bad, y) == own_patches.MOST
    assert own_patches.weight(good, good, y) == 1


def deciding(labels: int = 40, **changes) -> SimpleNamespace:
    about = {"features": "auto", "init_from": "", "encoder": packages.NAMES[0]} | changes
    some = SimpleNamespace(
        labels=np.arange(labels) % 10, class_names=list(range(10)), settings=Features(encoder=about["encoder"], size=64)
    )
    return SimpleNamespace(request=SimpleNamespace(**about), features=some, plan=SimpleNamespace(get=changes.get))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, True), ({"labels": 39}, False), ({"features": packages.NAMES[0]}, False), ({"encoder": "patches"}, False)],
)
def test_they_are_tried_beside_a_pretrained_network_that_the_user_has_not_chosen(changes, expected):
    assert own_patches.may_be_tried(deciding(**changes)) == expected


@pytest.mark.parametrize(("found", "expected"), [(None, False), (0.39, False), (0.4, True)])
def test_they_are_a_companion_if_they_are_worth_it(found, expected, monkeypatch):
    monkeypatch.setattr(packages, "installed", lambda name: name == packages.NAMES[0])
    on_it = deciding(**{own_patches.WEIGHT: found})
    assert [one.encoder for one in companions.candidates(on_it)] == (["patches"] if expected else [])


def test_they_count_as_much_as_all_networks_together():
    def part(model):
        return companions.Part(SimpleNamespace(model=SimpleNamespace(encoder=model)), None)

    on_it = SimpleNamespace(plan=SimpleNamespace(get={own_patches.WEIGHT: 1.5}.get))
    parts = companions.weighed(on_it, [part(WideResNet()), part(Patches()), part(WideResNet())])
    assert [one.weight for one in parts] == [1.0, pytest.approx(1.5 * 2**0.5), 1.0]


@pytest.mark.parametrize(
    ("left_s", "changes", "free", "expected"),
    [
        (149.0, {}, None, 0),  # 30 s are a fifth of 150; 64×64 pixels
        (151.0, {}, None, 1),
        (151.0, {"read_s": 0.01}, None, 0),  # 1,040 pictures are read first
        (203.0, {"read_s": 0.01}, None, 1),
        (151.0, {}, 10**9, 0),
        (151.0, {}, 1.1 * 10**9, 1),
        (151.0, {companions.NAMES: []}, None, 0),  # a session before has decided without them
    ],
)
def test_they_are_learnt_only_if_there_is_time_and_memory(left_s, changes, free, expected, monkeypatch):
    weighed = []
    monkeypatch.setattr(own_patches, "weigh", weighed.append)
    monkeypatch.setattr(joint.memory, "memory", lambda: (None, free))
    on_it = deciding(**changes)
    on_it.left_s, on_it.facts = left_s, {"unlabeled": 1000}
    joint.weigh_patches(on_it)
    assert len(weighed) == expected


@pytest.mark.parametrize(("size", "expected"), [(64, 6000), (65, 1500)])
def test_fewer_large_pictures_are_read(size, expected):
    on_it = deciding()
    on_it.facts, on_it.features.settings = {"unlabeled": 10_000}, Features(size=size)
    assert own_patches.learnt_from(on_it) == expected


def let_it_have_patches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(own_patches, "PATCHES", FEW)
    patch.setattr(own_patches, "LARGEST_FOR_PATCHES", 12)  # the pictures are larger
    patch.setattr(own_patches, "may_be_tried", lambda climb: True)
    patch.setattr(companions, "candidates", lambda climb: [own_patches.settings(climb.features.settings)])


@pytest.fixture(scope="module")
def with_patches(place):  # noqa: F811
    with pytest.MonkeyPatch.context() as patch:
        let_it_have_patches(patch)
        return climb(place, "patches")


def test_a_fit_puts_them_beside_the_network_and_predicts_what_it_was_judged_by(with_patches):
    assert json.loads((with_patches / "plan.json").read_text())[own_patches.WEIGHT] > own_patches.LEAST
    assert (
        "patches of your own pictures, beside the pretrained network: used" in (with_patches / "verdict.md").read_text()
    )
    for name, place_of_patches in (("joint", 1), ("joint_finetuned", 1)):
        weights = load_file(with_patches / name / "weights.safetensors")
        assert f"params/encoder/networks_{place_of_patches}/codes/scale1/centroids" in weights
        judged = rung.read(with_patches, name).predictions
        np.testing.assert_allclose(predictions_of(with_patches, name), np.exp(judged.test), atol=0.02)


def test_a_fit_that_was_killed_after_it_learnt_patches_gives_the_same(place, with_patches, monkeypatch):  # noqa: F811
    let_it_have_patches(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(joint, "train_joint", lambda *rest: killed())
        with pytest.raises(KilledError):
            climb(place, "killed_patches")
    out = climb(place, "killed_patches")
    for name in ("joint", "joint_finetuned"):
        whole, again = (folder / name / "weights.safetensors" for folder in (with_patches, out))
        assert whole.read_bytes() == again.read_bytes()


def test_the_weight_is_decided_once(place, with_patches, monkeypatch, tmp_path):  # noqa: F811
    on_it = begun(place, shutil.copytree(with_patches, tmp_path / "copy"))
    monkeypatch.setattr(own_patches, "weight", lambda *rest: pytest.fail("decided again"))
    own_patches.weigh(on_it)
