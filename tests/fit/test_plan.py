"""What pictures are encoded with, and how many."""

import pytest

from metapl.data.sources.features import Features
from metapl.fit import plan
from metapl.fit.encoder import Candidate, Pictures
from metapl.fit.request import Request
from metapl.models.mlp import MLP
from metapl.models.resnet import ResNet

FEW = Pictures(first=10, unlabeled=0, side=32)


@pytest.mark.parametrize(("model", "encoder"), [(ResNet(depth=18), "network"), (MLP(), "patches")])
def test_weights_of_a_network_for_pictures_encode_them_and_others_only_start_a_network(monkeypatch, model, encoder):
    monkeypatch.setattr(plan, "recognise", lambda name: type("Found", (), {"model": model}))
    chosen = plan.encoder_of(Request(init_from="/some/file.safetensors", features="patches"), FEW)
    assert chosen.encoder == encoder
    assert chosen.init_from == ("/some/file.safetensors" if encoder == "network" else "")


def test_a_package_is_an_encoder_by_its_name():
    chosen = plan.encoder_of(Request(init_from="efficientnet_lite1", budget="90s"), FEW)
    assert (chosen.encoder, chosen.encoder_size) == ("efficientnet_lite1", 128)


def test_pictures_are_not_made_smaller_than_what_the_encoder_sees():
    assert plan.largest(Features(encoder="efficientnet_lite2", encoder_size=192)) == 240
    assert plan.largest(Features(encoder="efficientnet_lite0", encoder_size=128)) == 160
    assert plan.largest(Features(encoder="patches")) == 64


def test_as_many_pictures_are_encoded_as_the_time_allows():
    assert plan.affordable(4000, 0.042, 60) == 1428
    assert plan.affordable(4000, 0.042, 600) == 4000
    assert plan.affordable(4000, 0.0, 60) == 4000


def test_the_encoder_is_measured_with_pictures_of_the_size_that_it_will_get(monkeypatch):
    measured = []
    monkeypatch.setattr(plan.encoders, "candidates", lambda name: [Candidate("efficientnet_lite2", 192)])
    monkeypatch.setattr(plan.encoders, "choose", lambda some, pictures, budget_s: measured.append(pictures) or some[0])
    for side, request in ((32, Request()), (4000, Request()), (4000, Request(size=100))):
        plan.encoder_of(request, FEW._replace(side=side))
    assert [pictures.side for pictures in measured] == [32, 240, 100]
