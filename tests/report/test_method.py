"""Names of methods, and the presets of runs."""

import pytest

from metapl import config as configs
from metapl.report import method, read

from .synthetic_runs import make, settings


def loaded(folder) -> read.ReportedRun:
    (found,) = read.read_runs([folder])
    return found


@pytest.mark.parametrize(
    ("preset", "title"),
    [
        ("digits_supervised_small", "Supervised"),
        ("digits_randaugment_small", "RandAugment"),
        ("digits_label_smoothing_small", "label smoothing"),
        ("digits_uda_small", "UDA"),
        ("digits_mpl_small", "UDA + MPL + finetuning"),
        ("digits_mpl_none_small", "UDA + MPL (no feedback) + finetuning"),
        ("digits_mpl_supervised_small", "Supervised + MPL + finetuning"),
        ("digits_mpl_pseudo_labels_small", "Pseudo Labels + MPL + finetuning"),
        ("digits_mpl_regularizer_small", "Supervised + MPL as a regulariser + finetuning"),
        ("digits_mpl_mean_teacher_none_small", "Mean Teacher + MPL (no feedback) + finetuning"),
        ("digits_pseudo_labels_small", "Pseudo Labels"),
    ],
)
def test_methods_are_named_as_in_the_paper(tmp_path, preset, title):
    assert method.title(loaded(make(tmp_path / "run", configs.dump(configs.load(preset))))) == title


def test_a_run_of_a_preset_gets_the_paper_s_number(tmp_path):
    text = configs.dump(configs.load("svhn_1k_uda")).replace("seed = 0", "seed = 5")
    found = method.origin(loaded(make(tmp_path / "run", text)))
    assert (found.preset, found.number) == ("svhn_1k_uda", "Table 2: 97.11 ± 0.17 % (10 runs)")


def test_a_run_with_changed_settings_does_not_get_it(tmp_path):
    text = configs.dump(configs.load("svhn_1k_uda")).replace("temperature = 0.8", "temperature = 0.9")
    found = method.origin(loaded(make(tmp_path / "run", text, command=["metapl", "train", "svhn_1k_uda"])))
    assert (found.preset, found.paper, found.number) == ("svhn_1k_uda", "", "")
    (change,) = found.changes
    assert change.startswith("stages.0.method.consistency.temperature 0.9, preset 0.")


def test_a_header_without_a_number_gives_none(tmp_path):
    found = method.origin(loaded(make(tmp_path / "run", configs.dump(configs.load("cifar10_4k_mpl_released")))))
    assert found.paper.startswith("no number for these settings; Table 2")
    assert found.number == ""


def test_a_users_own_settings_have_no_preset(tmp_path):
    assert method.origin(loaded(make(tmp_path / "run", settings()))) == method.Origin()
