"""What a sink cannot do never ends a run that goes on."""

from unittest import mock

import numpy as np
import pytest

from metapl.runs import sinks
from metapl.runs.sinks import Kind, opened, require
from metapl.runs.sinks.series import Session, mean_name, series
from metapl.schema import ConfigError

NUMBERS = {"loss": np.array([0.5], np.float32)}


class Sink:
    def __init__(self, broken=""):
        self.broken, self.calls = broken, []

    def __getattr__(self, name):
        def work(*args):
            self.calls.append((name, *args))
            if name == self.broken:
                raise OSError(28, "No space left on device")

        return work


def run(tmp_path, sink, done=0):
    """A run of two reports; what was said."""
    said = []
    session = Session(tmp_path, {"tensorboard": True, "wandb": False}, [0], True, done)
    open_sink = sink if callable(sink) and not isinstance(sink, Sink) else lambda _: sink
    kind = Kind("TensorBoard", "tensorboardX", open_sink)
    with mock.patch.dict(sinks.SINKS, {"tensorboard": kind}), opened(session, said.append) as others:
        others(0, 500, NUMBERS)
        others(0, 1000, NUMBERS)
        others.flush()
    return said


def test_a_sink_gets_every_report_and_is_closed(tmp_path):
    sink = Sink()
    assert run(tmp_path, sink) == []
    assert [call[0] for call in sink.calls] == ["write", "write", "flush", "close"]
    assert sink.calls[1][1:] == (1000, NUMBERS)


@pytest.mark.parametrize("broken", ["write", "flush", "close"])
def test_one_that_fails_is_told_of_once_and_left_out(tmp_path, broken):
    sink = Sink(broken)
    (sentence,) = run(tmp_path, sink)
    assert sentence.startswith("TensorBoard has failed ([Errno 28] No space left on device)")
    assert [call[0] for call in sink.calls].count(broken) == 1


def test_one_that_cannot_begin_ends_a_new_run_and_no_resumed_one(tmp_path):
    def refuse(session):
        raise RuntimeError("no network\nat all")

    with pytest.raises(ConfigError, match="TensorBoard cannot start: no network at all"):
        run(tmp_path, refuse)
    assert run(tmp_path, refuse, done=500) == [
        "TensorBoard cannot continue (no network at all); the run continues without it"
    ]


def test_a_run_that_fails_closes_its_sinks_as_failed(tmp_path):
    sink, session = Sink(), Session(tmp_path, {"tensorboard": True}, [0], True, 0)
    kind = Kind("TensorBoard", "tensorboardX", lambda _: sink)

    def fail():
        with mock.patch.dict(sinks.SINKS, {"tensorboard": kind}), opened(session, print):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert sink.calls == [("close", True)]


def test_what_is_asked_for_must_be_installed_and_a_folder_of_its_name_does_not_count(tmp_path, monkeypatch):
    missing = Kind("Thing", "no_such_package", Sink)
    monkeypatch.setitem(sinks.SINKS, "wandb", missing)
    require({"wandb": False})
    with pytest.raises(ConfigError, match=r"--wandb needs no_such_package.*pip install 'metapl\[wandb\]'"):
        require({"wandb": True})
    (tmp_path / "no_such_package").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="is not installed"):
        require({"wandb": True})


def test_curves_are_in_two_groups_and_a_histogram_is_its_largest_share():
    numbers = {"loss": np.ones(2), "val_accuracy": np.zeros(2), "histogram": np.array([[0.1, 0.9], [0.5, 0.5]])}
    curves = series(numbers)
    assert set(curves) == {"training/loss", "evaluation/val_accuracy", "training/histogram_max"}
    np.testing.assert_array_equal(curves["training/histogram_max"], [0.9, 0.5])
    assert mean_name([3, 4, 5]) == "mean-of-seeds-3-to-5"
