"""A whole run in several real processes: tar files, stored predictions, a picture's width shared, a process killed.

Every process reads its own rows of a batch from the shards, the second stage learns from stored predictions, and the
run goes on with other numbers of processes and in other modes. A smaller one reads Parquet files and has Reduced MPL.
"""

import io
import signal
import time

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from metapl.system import processes
from tests.data.shard_files import sample, write_parquet, write_tar
from tests.system.together import Place, ended

STEPS = 24  # of the second stage
SETTINGS = f"""
log_every_steps = 4
checkpoint = {{every_steps = 2, keep = 2}}
[data]
name = "webdataset"
path = "shards"
feed = "files"
size = 8
workers = 0
[model]
name = "wide_resnet"
depth = 10
width = 1
[augmentation]
weak = {{flip = false, shift_pixels = 1}}
strong = {{layers = 1, ops = ["brightness"], cutout = 0}}
[[stages]]
steps = 4
labeled_batch = 8
method = {{name = "supervised", optimizer = {{learning_rate = 0.001}}}}
[[stages]]
steps = {STEPS}
labeled_batch = 8
unlabeled_batch = 8
[stages.method]
name = "noisy_student"
keep.per_class = 10
optimizer.learning_rate = 0.001
"""
REDUCED = """
preset = "digits_reduced_mpl_small"
log_every_steps = 2
checkpoint = {every_steps = 3, keep = 2}
[data]
name = "parquet"
path = "parquet"
feed = "files"
size = 8
workers = 0
[model]
hidden = [8]
[[stages]]
steps = 4
labeled_batch = 8
method = {name = "supervised"}
[[stages]]
steps = 6
labeled_batch = 8
unlabeled_batch = 8
method = {name = "reduced_mpl", keep.per_class = 10}
"""
HYBRID = ("--parallel.mode", "hybrid", "--parallel.model", "2")
RESULTS = ("metrics.jsonl", "weights.safetensors", "evaluations.csv")


def digits_by_shard() -> dict[str, list[tuple[str, bytes, int | None]]]:
    """Digits 0 and 1, with names and labels: 20 labelled, 40 unlabelled, 20 for the test."""
    digits = load_digits()
    rows = np.flatnonzero(digits.target < 2)[:80]
    parts = {"train-0": rows[:10], "train-1": rows[10:20], "unlabeled": rows[20:60], "test": rows[60:]}

    def picture(row: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray((digits.images[row] * 15.9).astype(np.uint8)).save(out, "PNG")
        return out.getvalue()

    return {
        name: [
            (f"{name}_{row}", picture(row), None if name == "unlabeled" else int(digits.target[row])) for row in part
        ]
        for name, part in parts.items()
    }


def write_shards(place: Place) -> None:
    for name, samples in digits_by_shard().items():
        write_tar(place.folder / "shards" / f"{name}.tar", [member for one in samples for member in sample(*one)])


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("whole"), SETTINGS)
    write_shards(place)
    ended([place.start("train", "my.toml", "--out", "one", *HYBRID, devices=2)])
    return place


def test_two_processes_that_share_the_width_of_pictures_give_the_numbers_of_one(place):
    said = ended(place.start_two("train", "my.toml", "--out", "two", *HYBRID))
    for name in RESULTS:
        assert (place.folder / "one" / name).read_bytes() == (place.folder / "two" / name).read_bytes(), name
    assert "in 2 processes" in said[0]


def begun(place: Place, run: str, step: int) -> None:
    """Wait until a run has reported a step of its second stage."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if (place.folder / run / "metrics.jsonl").exists():
            lines = place.lines(run)
            if lines and lines[-1]["stage"] == 1 and lines[-1]["step"] >= step:
                return
        time.sleep(0.01)
    raise AssertionError(f"{run} has not come to step {step} of its second stage")


def test_a_lost_process_ends_the_others_and_the_run_goes_on_in_other_modes_with_other_numbers(place):
    children = place.start_two("train", "my.toml", "--out", "lost", *HYBRID)
    begun(place, "lost", 4)
    children[1].send_signal(signal.SIGKILL)
    said, _ = children[0].communicate(timeout=300)
    children[1].communicate()
    assert children[0].returncode == processes.LOST, said
    assert "process 1 of 2 is lost, and the others cannot continue without it" in said
    assert "Traceback" not in said

    four = place.start_many(4, "resume", "lost", "--mode", "data")
    before = len(place.lines("lost"))
    end = time.monotonic() + 120
    while len(place.lines("lost")) <= before and time.monotonic() < end and four[0].poll() is None:
        time.sleep(0.01)
    four[2].send_signal(signal.SIGTERM)
    told = [child.communicate(timeout=300)[0] for child in four]
    codes = [child.returncode for child in four]
    assert codes in ([128 + signal.SIGTERM] * 4, [0] * 4), told
    assert "continuing from step-" in told[0]

    if codes[0]:
        ended([place.start("resume", "lost", "--mode", "single")])
    lines, expected = place.lines("lost"), place.lines("one")
    assert [(line["stage"], line["step"]) for line in lines] == [(line["stage"], line["step"]) for line in expected]
    weights, reference = (load_file(place.folder / run / "weights.safetensors") for run in ("lost", "one"))
    assert weights.keys() == reference.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, reference[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_two_processes_learn_from_stored_predictions_for_parquet_files_as_one_does(tmp_path):
    place = Place(tmp_path, REDUCED)
    for name, samples in digits_by_shard().items():
        labels = None if name == "unlabeled" else [label for _, _, label in samples]
        write_parquet(tmp_path / "parquet" / f"{name}.parquet", [picture for _, picture, _ in samples], labels)
    ended([place.start("train", "my.toml", "--out", "one", devices=2)])
    ended(place.start_two("train", "my.toml", "--out", "two"))
    for name in RESULTS:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
