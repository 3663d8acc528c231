"""A network of heads as a run: everything that takes a run takes it."""

import json

import jax
import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression

from metapl import data, models
from metapl.augment.views import Augmentation
from metapl.config import Config
from metapl.data.sources.digits import Digits
from metapl.evaluate import finished_run, predictor
from metapl.inference.batches import EVALUATION
from metapl.inference.forward import Forward, of_network
from metapl.models.assemble import Encoder, linear
from metapl.models.heads import Heads
from metapl.models.wide_resnet import WideResNet
from metapl.runs.compose import write_run
from metapl.types import Weights

ENCODER = Heads(WideResNet(depth=10, width=1))
CONFIG = Config(seed=3, data=Digits(), model=ENCODER)


@pytest.fixture(scope="module")
def dataset():
    whole = data.load(CONFIG.data, [0], ())[0]
    return whole._replace(labeled=whole.labeled[:150], labels=whole.labels[:150])


@pytest.fixture(scope="module")
def composed(dataset, tmp_path_factory):
    """The run, and the linear classifier that is in it, with its features."""
    network = models.build(ENCODER, 10)
    weights = network.init(jax.random.key(0), np.zeros((1, 8, 8, 1), np.float32))
    params = {name: weights.params[name] for name in ("encoder", "scale")}
    encoder = Encoder(ENCODER, Weights(params, weights.stats), (0.5,), (0.5,))
    forward = Forward(network, Augmentation(), "features")
    features = [of_network(forward, weights, np.asarray(part), EVALUATION) for part in (dataset.labeled, dataset.test)]
    classifier = LogisticRegression(max_iter=200).fit(features[0], dataset.labels)
    out = tmp_path_factory.mktemp("runs") / "heads"
    heads = [linear(classifier.coef_, classifier.intercept_)] * 2
    write_run(out, CONFIG, encoder, heads, dataset, Console(quiet=True))
    return out, classifier.predict_proba(features[1])


def test_it_predicts_what_the_classifier_predicts(composed, dataset):
    out, expected = composed
    loaded = predictor.load(out)
    np.testing.assert_allclose(loaded.probabilities(np.asarray(dataset.test)), expected, atol=1e-4)


def test_its_result_is_measured_and_evaluating_it_again_gives_the_same_bits(composed, dataset):
    out, expected = composed
    result = json.loads((out / "result.json").read_text("utf-8"))
    assert result["accuracy"] == pytest.approx(np.mean(expected.argmax(-1) == dataset.test_labels), abs=2e-3)
    assert finished_run.evaluate(out, "test", ()).remarks == ["the same numbers as in result.json, to the last bit"]


def test_a_finished_run_stays_as_it_is(composed, dataset):
    out, _ = composed
    before = (out / "result.json").read_bytes()
    write_run(out, CONFIG, None, (), dataset, Console(quiet=True))
    assert (out / "result.json").read_bytes() == before
