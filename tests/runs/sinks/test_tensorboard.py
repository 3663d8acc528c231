"""The events, read back."""

import importlib.util
import struct

import numpy as np
import pytest

if importlib.util.find_spec("tensorboardX") is None:  # to import it takes a second
    pytest.skip("needs metapl[tensorboard]", allow_module_level=True)

from metapl.data.reading.records import masked_crc
from metapl.runs.sinks.series import Session
from metapl.runs.sinks.tensorboard import TensorBoard


def events(path):
    """Every event of a file, its checksums looked at."""
    from tensorboardX.proto.event_pb2 import Event

    data, at = path.read_bytes(), 0
    while at < len(data):
        length, head = struct.unpack_from("<QI", data, at)
        body = data[at + 12 : at + 12 + length]
        assert head == masked_crc(data[at : at + 8])
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(body)
        yield Event.FromString(body)
        at += 16 + length


def points(folder):
    """(step, name, value) of all files of a folder, as TensorBoard shows them: a new session takes steps back."""
    from tensorboardX.proto.event_pb2 import SessionLog

    found = []
    for path in sorted(folder.glob("events.*"), key=lambda path: path.stat().st_mtime_ns):
        for event in events(path):
            if event.session_log.status == SessionLog.START:
                found = [point for point in found if point[0] < event.step]
            found += [(event.step, value.tag, pytest.approx(value.simple_value)) for value in event.summary.value]
    return found


def write(session, *reports):
    sink = TensorBoard(session)
    for step, loss in reports:
        sink.write(step, {"loss": np.array(loss, np.float32)})
    sink.close(failed=False)


def test_one_seed_is_one_curve(tmp_path):
    write(Session(tmp_path, {}, [3], True, 0), (500, [0.5]), (1000, [0.25]))
    assert points(tmp_path / "tensorboard") == [(500, "training/loss", 0.5), (1000, "training/loss", 0.25)]


def test_several_seeds_have_curves_of_their_own_and_a_mean(tmp_path):
    write(Session(tmp_path, {}, [3, 4], False, 0), (500, [0.5, 1.5]))
    found = {path.name: points(path) for path in (tmp_path / "tensorboard").iterdir()}
    assert found == {
        "seed-3": [(500, "training/loss", 0.5)],
        "seed-4": [(500, "training/loss", 1.5)],
        "mean-of-seeds-3-to-4": [(500, "training/loss", 1.0)],
    }


def test_what_a_killed_session_wrote_beyond_the_checkpoint_is_taken_back(tmp_path):
    write(Session(tmp_path, {}, [3], True, 0), (500, [0.5]), (1000, [0.25]), (1500, [0.125]))
    write(Session(tmp_path, {}, [3], True, 1000), (1500, [0.1]), (2000, [0.05]))
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
    assert [step for step, _, _ in points(tmp_path / "tensorboard")] == [500, 1000, 1500, 2000]
    assert points(tmp_path / "tensorboard")[2] == (1500, "training/loss", 0.1)


def test_a_flush_brings_all_to_the_disk(tmp_path):
    sink = TensorBoard(Session(tmp_path, {}, [3], True, 0))
    sink.write(500, {"loss": np.array([np.nan], np.float32)})
    sink.flush()
    ((step, _, _),) = points(tmp_path / "tensorboard")
    assert step == 500
    sink.close(failed=False)
