"""The rung that goes on from the finetuned network with Meta Pseudo Labels: what it learns, and when it is left out."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from metapl import config as configs
from metapl.fit import finetuned_mpl, ladder, rung, select
from metapl.recipe import finetuned as recipe
from tests.fit.test_finetuned import climb, place  # noqa: F401 (a fixture)

REAL = ladder.finetuned_mpl_rung


@pytest.fixture(scope="module")
def finished(place):  # noqa: F811
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "finetuned_mpl_rung", REAL)
        patch.setattr(recipe, "MPL_LABELED", 4)
        patch.setattr(recipe, "MPL_UNLABELED", 4)
        return climb(place, "with_mpl")


def test_it_learns_from_labels_and_from_unlabelled_pictures_as_such(finished):
    with (finished / finetuned_mpl.LIST / "pictures.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    folders = {role: {Path(row["path"]).parts[-2] for row in rows if row["split"] == role} for role in ("unlabeled",)}
    assert folders == {"unlabeled": {"unlabeled"}}
    learnt = [row["path"] for row in rows if row["split"] == "labeled"]
    assert len(learnt) == 48
    assert all("labeled" in Path(path).parts for path in learnt)
    method = configs.load(str(finished / finetuned_mpl.RUN / "config.toml")).stages[0].method
    assert (method.name, method.student_start, method.student_view) == ("mpl", "teacher", "strong")
    assert (method.feedback.scale, method.feedback.weight) == ("horizon", 0.25)
    assert (method.teacher.rule, method.student.rule) == ("adamw", "sgd")  # AdamW's feedback would not be finite


def test_it_goes_on_from_the_first_run_and_one_fold_validates_it(finished):
    begun = configs.load(str(finished / finetuned_mpl.RUN / "config.toml"))
    assert Path(begun.init_from).parent.name == "finetuned-check"
    assert begun.model.frozen_norms
    one, other = (rung.read(finished, name) for name in ("finetuned_mpl", "finetuned"))
    np.testing.assert_array_equal(select.predicted(one), select.predicted(other))
    assert one.about.uses_unlabeled
    assert one.remark == "3 steps"


def test_its_weights_are_between_the_first_network_and_the_student(finished):
    start, student, mean = (
        load_file(finished / name / "weights.safetensors")
        for name in ("finetuned-start", finetuned_mpl.RUN, "finetuned_mpl")
    )
    name = "params/encoder/head_conv/kernel"
    assert np.abs(student[name] - start[name]).max() > 1e-5
    np.testing.assert_allclose(mean[name], 0.25 * start[name] + 0.75 * student[name], rtol=1e-5, atol=1e-6)


def on_the_way(left_s: float, step_s: float) -> SimpleNamespace:
    plan = {"finetune_step_s": step_s, "finetune_batch": 16, "view_s": 0.001}
    features = SimpleNamespace(labels=[], val=[], test=[], judged=[], used=[])
    request, out = SimpleNamespace(steps=0), Path("nowhere")
    return SimpleNamespace(plan=plan, features=features, request=request, out=out, left_s=left_s, has_unlabeled=False)


def test_it_is_left_out_if_time_is_short():
    assert finetuned_mpl.PICTURES == 74
    step_s = 74 / 16 * 0.5
    needed_s = (60 * step_s + 180) / 0.8
    assert finetuned_mpl.why_no_time(on_the_way(needed_s + 1, 0.5)) == ""
    assert "at least" in finetuned_mpl.why_no_time(on_the_way(needed_s - 1, 0.5))
