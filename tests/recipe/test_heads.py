"""Heads on stored features: their settings are valid, and a run's heads are read as they were trained."""

import json
from typing import get_args

import numpy as np
import pytest
from rich.console import Console

from metapl import data, models
from metapl.config import Config
from metapl.data.sources.features import Features
from metapl.recipe import heads
from metapl.runs.start import start_run
from metapl.schema import ConfigError, validate
from metapl.system import runtime
from tests.tiny_run import make_run

SCALE = heads.Scale(square=10.0, penalty=0.01)
BASE = Config(seed=5, data=Features(source="digits", encoder="pixels", views=1))


@pytest.mark.parametrize("method", get_args(heads.Method))
def test_settings_are_valid_and_train_that_method(method):
    config = heads.settings(method, BASE, SCALE, steps=40)
    validate(config)
    assert [(stage.method.name, stage.steps) for stage in config.stages] == [(method, 40)]
    assert (config.seed, config.data) == (BASE.seed, BASE.data)


def test_the_heads_of_a_run_predict_what_the_run_has_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "run").mkdir()
    start_run(heads.settings("uda", BASE, SCALE, steps=8), 2, 2, (), tmp_path / "run", Console(quiet=True))
    found = heads.of_run(tmp_path / "run")
    accuracies = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))["accuracies"]
    dataset = data.load(BASE.data, [5], ())[0]
    features = np.asarray(dataset.test[:, 0], np.float32)
    for head, accuracy in zip(found, accuracies.values(), strict=True):
        logits, _ = models.build(head.model, 10).apply(*head.weights, features, train=False)
        assert np.mean(np.argmax(logits, -1) == dataset.test_labels) == pytest.approx(accuracy, abs=2e-3)


def test_a_run_of_pictures_has_no_heads(tmp_path):
    run = make_run(tmp_path / "run", '[data]\nname = "folder"\nsize = 6\n[model]\nname = "wide_resnet"\ndepth = 10\n')
    with pytest.raises(ConfigError, match="did not train heads on features, but the network wide_resnet"):
        heads.of_run(run)
