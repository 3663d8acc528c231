"""Damaged inputs: the campaign notices a traceback and makes its input smaller; the package gives none."""

import random

import pytest
from faults import inputs
from faults.inputs import KINDS, Kind

from metapl.schema import ConfigError


def refuse_or_break(path):
    data = path.read_bytes()
    if b"e" in data:
        raise KeyError("e")
    raise ConfigError("a clear sentence")


def test_an_error_that_is_no_sentence_is_a_failure_and_its_input_is_made_smaller(monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "KINDS", {"word": Kind(lambda place: [b"some letters"], refuse_or_break, "word.txt")})
    report = inputs.campaign("word", 20, 0, tmp_path / "kept")
    assert [problem.split(":")[0] for problem in report["failures"]] == ["KeyError at test_inputs.py"]
    assert 0 < report["refused"] < 20
    assert [file.read_bytes() for file in (tmp_path / "kept").iterdir()] == [b"e"]


def test_the_same_seed_gives_the_same_inputs():
    one, again, other = (inputs.mutated(b"some letters", random.Random(seed)) for seed in (3, 3, 4))
    assert one == again != other


@pytest.mark.parametrize("kind", KINDS)
def test_valid_inputs_are_read(kind, tmp_path):
    """Else the campaign would only ever see refusals."""
    for seed in KINDS[kind].seeds(tmp_path):
        assert inputs.tried(kind, tmp_path, seed) is None or kind == "tfrecord"


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_inputs_are_read_or_refused_in_a_sentence(kind):
    number = 2 if kind == "onnx" else 40 if kind.startswith("run-") else 150
    assert inputs.campaign(kind, number, 0)["failures"] == []
