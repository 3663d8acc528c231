"""How many unlabelled pictures a fit encodes, and what it prepares again for that."""

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from metapl.data.sources.features import Features
from metapl.fit import encode


@pytest.mark.parametrize(("seconds", "limit", "again"), [(1000.0, 4000, []), (100.0, 400, [400])])
def test_only_a_part_of_the_unlabelled_pictures_is_prepared_again(monkeypatch, seconds, limit, again):
    """A quarter of the time for encoding, at a sixteenth of a second for each picture."""
    prepared, calls = SimpleNamespace(config=Features()), []
    monkeypatch.setattr(encode.load, "new_share", lambda *_: 1.0)
    monkeypatch.setattr(encode.load, "is_stored", lambda *_, **__: False)
    monkeypatch.setattr(encode.encoding, "with_unlabeled", lambda some, prepared, *rest: time.sleep(0.1) or prepared)
    monkeypatch.setattr(encode.data, "prepare_features", lambda settings, *_: calls.append(settings.unlabeled))
    plan = {"view_s": 1 / 16}
    decide = lambda name, value: plan.setdefault(name, value)  # noqa: E731
    climb = SimpleNamespace(
        facts={"unlabeled": 4000},
        plan=SimpleNamespace(get=plan.get, decide=decide),
        features=SimpleNamespace(prepared=prepared, settings=prepared.config),
        clock=SimpleNamespace(budget_s=seconds),
        console=Console(file=io.StringIO()),
        say=lambda text: None,
    )
    encode.encode_unlabeled(climb)
    assert plan["unlabeled"] == limit
    assert calls == again
    assert plan["encoded_s"] * limit >= 0.1
    assert climb.encoded is (None if again else prepared)
