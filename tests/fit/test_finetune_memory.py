"""Memory is asked for before a network is finetuned: fewer pictures at once, or a sentence instead of a kill."""

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from metapl import models
from metapl.fit import finetune_memory, finetuned, finetuned_mpl
from metapl.fit.request import Request
from metapl.models.mlp import MLP
from metapl.system import memory
from metapl.weights import Example


@pytest.fixture
def model():
    network = models.build(MLP(hidden=(64, 64)), 3)
    weights = network.init(jax.random.key(0), jnp.zeros((1, 10)))
    return SimpleNamespace(network=network, weights=weights, example=Example((10,), "float32"))


def test_a_step_takes_what_the_backward_pass_keeps_and_the_optimizer(model):
    few, many = (finetune_memory.step_bytes(model, pictures) for pictures in (100, 200))
    weights = 4 * (10 * 64 + 64 * 64 + 64 * 3 + 64 + 64 + 3)
    kept = (many - few) / finetune_memory.MARGIN / 100  # by a picture
    assert 4 * (10 + 64 + 64) <= kept <= 2 * 4 * (10 + 64 + 64 + 3)  # each layer's inputs, and where ReLU passed
    assert few - 100 * finetune_memory.MARGIN * kept >= finetune_memory.MARGIN * 4 * weights


def test_what_is_lacking_is_said(model, monkeypatch):
    needed = int(finetune_memory.step_bytes(model, 10**6))
    monkeypatch.setattr(memory, "memory", lambda: (10**12, needed + 1))
    assert not finetune_memory.lacking(model, 10**6)
    monkeypatch.setattr(memory, "memory", lambda: (10**12, needed // 2))
    said = finetune_memory.lacking(model, 10**6)
    assert said == f"it needs about {needed / 1e9:.1f} GB of memory, and {needed / 2e9:.1f} GB are free"
    monkeypatch.setattr(memory, "memory", lambda: (None, None))
    assert not finetune_memory.lacking(model, 10**6)


def on_the_way(**plan) -> SimpleNamespace:
    plan |= {"view_s": 0.0}
    decisions = SimpleNamespace(get=plan.get, decide=lambda _, value: value)
    return SimpleNamespace(out=Path("nowhere"), plan=decisions, request=Request(steps=5), left_s=1e6)


@pytest.mark.parametrize(("most", "batch"), [(100, 32), (31, 16)])
def test_batches_are_small_if_memory_is_short(most, batch, monkeypatch):
    monkeypatch.setattr(finetuned, "started_from", lambda climb: None)
    monkeypatch.setattr(finetune_memory, "lacking", lambda _, pictures: "too little" if pictures > most else "")
    monkeypatch.setattr(finetuned.encoded, "judging", lambda some, most: some)
    climb, decided = on_the_way(), {}
    climb.plan.decide, climb.features = decided.setdefault, SimpleNamespace(used=[])
    finetuned.settle(climb, 1e6)
    assert decided["finetune_batch"] == batch


@pytest.mark.parametrize(
    ("module", "begun"), [(finetuned, "finetune_batch"), (finetuned_mpl, "finetuned_mpl-run_steps")]
)
def test_a_network_that_needs_more_memory_is_left_out_unless_it_has_begun(module, begun, monkeypatch):
    monkeypatch.setattr(finetuned, "started_from", lambda climb: None)
    monkeypatch.setattr(finetune_memory, "lacking", lambda _, pictures: "too little")
    assert module.why_no_memory(on_the_way()) == "too little"
    assert not module.why_no_memory(on_the_way(**{begun: 16}))
