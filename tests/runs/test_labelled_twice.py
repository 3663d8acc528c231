"""It is said if the unlabelled examples of a run are its labelled ones, because the data have no others."""

from types import SimpleNamespace

import pytest

from metapl.algorithms.supervised import Supervised
from metapl.algorithms.uda import UDA
from metapl.config import Config, Stage
from metapl.runs.work import learns_from_labelled_twice


def manifest(labeled: str, unlabeled: str) -> dict[str, dict[str, str]]:
    return {"labeled": {"rows_sha256": labeled}, "unlabeled": {"rows_sha256": unlabeled}}


@pytest.mark.parametrize(
    ("method", "described", "said"),
    [
        (UDA(), manifest("a", "a"), True),
        (UDA(), manifest("a", "b"), False),
        (UDA(), None, False),
        (Supervised(), manifest("a", "a"), False),
    ],
)
def test_only_a_stage_that_learns_from_unlabelled_examples_counts(method, described, said):
    config = Config(stages=(Stage(method),))
    assert learns_from_labelled_twice(config, SimpleNamespace(manifest=described)) is said
