"""What pictures are encoded with, and how many."""

import pytest

from metapl.fit import plan
from metapl.fit.request import Request
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet


@pytest.mark.parametrize(("model", "encoder"), [(ResNet(depth=18), "network"), (MLP(), "patches")])
def test_weights_of_a_network_for_pictures_encode_them_and_others_only_start_a_network(monkeypatch, model, encoder):
    monkeypatch.setattr(plan, "recognise", lambda name: type("Found", (), {"model": model}))
    chosen = plan.encoder_of(Request(init_from="/some/file.safetensors", features="patches"))
    assert chosen.encoder == encoder
    assert chosen.init_from == ("/some/file.safetensors" if encoder == "network" else "")


def test_a_package_is_an_encoder_by_its_name():
    assert plan.encoder_of(Request(init_from="efficientnet_lite1")).encoder == "efficientnet_lite1"


def test_as_many_pictures_are_encoded_as_the_time_allows():
    assert plan.affordable(4000, 0.042, 60) == 1428
    assert plan.affordable(4000, 0.042, 600) == 4000
    assert plan.affordable(4000, 0.0, 60) == 4000
