"""A run goes on exactly where it was, or says why it cannot; nothing is lost on the way."""

import errno
import hashlib
import io
import json
import os
import re
import shutil
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import sleep
from unittest import mock

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

import metapl
from metapl import config as configs
from metapl import data
from metapl.cli.resume import resume as resume_verb
from metapl.runs import checkpoint, run_folder
from metapl.runs.resume import resume_run
from metapl.runs.run_folder import claim
from metapl.runs.saver import Saver
from metapl.runs.start import start_run
from metapl.schema import ConfigError
from metapl.system import sharding
from metapl.system.lock import locked
from metapl.system.signals import Stopped
from metapl.train.program import prepare

SETTINGS = """
log_every_steps = 10
eval_every_steps = 16
checkpoint = {every_steps = 7, keep = 2, keep_every_steps = 14}
[data]
name = "npz"
file = "digits.npz"
split = "npz@50#0"
[model]
hidden = [8]
activation = "relu"
[[stages]]
steps = 30
labeled_batch = 10
unlabeled_batch = 10
method = {name = "mpl", own = {name = "simmatch", width = 8}}
[[stages]]
steps = 12
labeled_batch = 10
method = {name = "supervised", optimizer.average_decay = 0.9}
"""


class Crash(BaseException):
    """As if the power had gone."""


class Place:
    """Runs of one kind beside each other; all share what is compiled."""

    def __init__(self, folder: Path, settings: str, seeds: int = 1) -> None:
        found = load_digits()
        pixels, labels = np.rint(found.images * (255 / 16)).astype(np.uint8), found.target
        arrays = {"images": pixels[:200], "labels": labels[:200], "test_images": pixels[300:500]}
        np.savez(folder / "digits.npz", **arrays, test_labels=labels[300:500])
        self.folder, self.seeds = folder, seeds
        self.config = configs.parse(settings, "test")
        self.program = prepare(self.config, data.load(self.config.data, [0], [folder]))

    def go(self, name: str, call, *args) -> str:
        said = io.StringIO()
        with mock.patch("metapl.runs.work.prepare", return_value=self.program):
            try:
                call(*args, self.folder / name, *([None] if call is resume_run else []), Console(file=said, width=400))
            except (ConfigError, Stopped) as error:
                error.add_note(said.getvalue())
                raise
        return said.getvalue()

    def train(self, name: str) -> str:
        (self.folder / name).mkdir()
        return self.go(name, start_run, self.config, self.seeds, 1, [self.folder])

    def resume(self, name: str) -> str:
        return self.go(name, resume_run)


def crash_at(steps: int, what: type[BaseException] = Crash):
    """Crash between two pieces, as soon as a stage has done so many steps and what it saves is on the disk."""
    between = Saver.between

    def checked(self: Saver, snapshot, flush) -> None:
        between(self, snapshot, flush)
        if snapshot.step >= steps:
            self._writer.wait()
            raise what

    return mock.patch.object(Saver, "between", checked)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def assert_same_run(one: Path, two: Path) -> None:
    names = {path.name for path in one.iterdir()} - {"log.jsonl", "lock", "environment.json", "result.json"}
    assert {"metrics.jsonl", "evaluations.csv", "confusion.npz", "config.toml", "split.json", "progress.json"} <= names
    assert ("pseudo_labels.jsonl" in names) == (two / "pseudo_labels.jsonl").exists()  # where labels change
    for name in names - {"checkpoints", "progress.json"}:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    results = [json.loads((folder / "result.json").read_text()) | {"seconds": 0} for folder in (one, two)]
    assert results[0] == results[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    found = Place(tmp_path_factory.mktemp("runs"), SETTINGS)
    found.train("whole")
    return found


@pytest.fixture(scope="module")
def crashed(place) -> Path:
    """A run that crashed at step 28 or soon after; tests take copies of it."""
    with crash_at(28), pytest.raises(Crash):
        place.train("crashed")
    assert kept(place.folder / "crashed") == [f"step-00000000{steps}" for steps in (14, 21, 28)]
    return place.folder / "crashed"


@pytest.fixture
def copy(place, crashed, tmp_path_factory) -> Path:
    name = tmp_path_factory.mktemp("copy").name
    return Path(shutil.copytree(crashed, place.folder / name))


def test_the_newest_and_every_nth_are_kept(place):
    """14 and 28 for good, the end of the first stage at 30 and 7 steps into the second only while they are new."""
    assert kept(place.folder / "whole") == [f"step-00000000{steps}" for steps in (14, 28, 37, 42)]


@pytest.mark.parametrize("steps", [1, 5, 13, 30])
def test_from_wherever_a_run_goes_on_it_ends_the_same(place, steps):
    name = f"at-{steps}"
    with crash_at(steps), pytest.raises(Crash):
        place.train(name)
    saved = (place.folder / name / "checkpoints").exists()
    assert saved or steps < 7
    said = place.resume(name)
    assert ("has no checkpoint yet" in said) != saved
    assert_same_run(place.folder / name, place.folder / "whole")


def test_to_note_labels_changes_nothing_else(place):
    whole, config = place.folder / "whole", place.config
    lines = [json.loads(line) for line in (whole / "pseudo_labels.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["step"], line["part"]) for line in lines] == [
        (0, 15, "unlabeled"), (0, 30, "unlabeled"), (0, 30, "test"),
    ]  # fmt: skip
    place.config = replace(config, record_labels=0)
    place.train("unnoted")
    place.config = config
    assert not (place.folder / "unnoted" / "pseudo_labels.jsonl").exists()
    for name in ("metrics.jsonl", "weights.safetensors", "evaluations.csv"):
        assert (place.folder / "unnoted" / name).read_bytes() == (whole / name).read_bytes()


def test_labels_that_were_changed_are_set_aside_and_the_run_goes_on(place, copy):
    (copy / "pseudo_labels.jsonl").write_text("other\n")
    assert "pseudo_labels.jsonl is not what it was at the checkpoint, and is set aside" in place.resume(copy.name)
    assert (copy / "damaged-pseudo_labels.jsonl").read_text() == "other\n"
    assert len((copy / "pseudo_labels.jsonl").read_text().splitlines()) == 2
    assert (copy / "metrics.jsonl").read_bytes() == (place.folder / "whole" / "metrics.jsonl").read_bytes()


def test_two_crashes_in_a_row(place, copy):
    with crash_at(30), pytest.raises(Crash):
        place.resume(copy.name)
    with crash_at(5), pytest.raises(Crash):  # in the second stage, by now
        place.resume(copy.name)
    place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


def test_a_crash_between_the_last_checkpoint_and_the_result(place, copy):
    with mock.patch("metapl.runs.work.write_result", side_effect=Crash), pytest.raises(Crash):
        place.resume(copy.name)
    assert "step 12 of stage 2" in place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


def test_the_training_that_goes_on_does_not_touch_what_is_being_written(place, copy):
    """The state is given away at the next piece: what is written late must be the state of then."""
    slow = mock.patch.object(checkpoint, "_measure", lambda path, real=checkpoint._measure: (sleep(0.3), real(path))[1])
    with slow:
        place.resume(copy.name)
    shutil.rmtree(copy / "checkpoints" / "step-0000000042")
    (copy / "result.json").unlink()
    place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


def test_a_finished_run_is_left_alone(place):
    before = (place.folder / "whole" / "result.json").read_bytes()
    assert "is finished" in place.resume("whole")
    assert (place.folder / "whole" / "result.json").read_bytes() == before


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "harm", "words"),
    [
        ("state/**/d/*", cut, "bytes instead of"),
        ("state/**/d/*", flip, "has another checksum"),
        ("state/**/manifest.ocdbt", Path.unlink, "is missing"),
        ("note.json", flip, "has another checksum"),
        ("manifest.json", Path.unlink, "manifest.json is missing"),
        ("manifest.json", cut, "manifest.json is not a list of files"),
        ("confusions.npz", cut, "bytes instead of"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_set_aside_and_the_one_before_is_used(place, copy, file, harm, words):
    newest = copy / "checkpoints" / "step-0000000028"
    harm(sorted(path for path in newest.glob(file) if path.is_file())[0])
    said = place.resume(copy.name)
    assert "checkpoint step-0000000028 is damaged" in said
    assert words in said
    assert "continuing from step-0000000021" in said
    assert (copy / "checkpoints" / "damaged-step-0000000028").is_dir()
    assert_same_run(copy, place.folder / "whole")


def test_a_partial_checkpoint_is_deleted_and_the_one_before_is_used(place, copy):
    (copy / "checkpoints" / "step-0000000028").rename(copy / "checkpoints" / "tmp-step-0000000028")
    (copy / "checkpoints" / "damaged-tmp-step-0000000007").mkdir()  # as version 0.1.0 left them
    said = place.resume(copy.name)
    assert "tmp-step-0000000028 was being written when the run ended: deleted" in said
    assert "continuing from step-0000000021" in said
    assert not [name for name in kept(copy) if "tmp-" in name]
    assert_same_run(copy, place.folder / "whole")


def begun_by(run: Path, version: str) -> None:
    """Change the version that a run began with; its checksum does not cover that."""
    environment = json.loads((run / "environment.json").read_text())
    environment["metapl"] = environment["versions"]["metapl"] = version
    (run / "environment.json").write_text(json.dumps(environment))


def snapshot_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "log.jsonl"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def write_older_note(run: Path) -> None:
    """Give the newest checkpoint a note of format 1, with a manifest that fits it."""
    newest = run / "checkpoints" / "step-0000000028"
    note = json.loads((newest / "note.json").read_text())
    del note["predictions_crc32c"]
    (newest / "note.json").write_text(json.dumps(note | {"format": 1, "answers_crc32c": None}))
    (newest / "manifest.json").unlink()
    (newest / "manifest.json").write_text(json.dumps(checkpoint._measure(newest)))


def write_older_settings(run: Path) -> None:
    """Have settings in config.toml that this version does not know, with a checksum that fits it."""
    (run / "config.toml").write_text("old_setting = 1\n" + (run / "config.toml").read_text())
    environment = json.loads((run / "environment.json").read_text())
    environment["config_sha256"] = hashlib.sha256((run / "config.toml").read_bytes()).hexdigest()
    environment["checksum"] = run_folder._checksum(environment)
    (run / "environment.json").write_text(json.dumps(environment))


def change_shapes(run: Path) -> mock._patch:
    """Have this version's state differ from the checkpoint's."""
    return mock.patch.object(checkpoint, "read_tree", side_effect=checkpoint.MismatchError("it does not fit"))


@pytest.mark.parametrize("change", [write_older_note, write_older_settings, change_shapes])
def test_a_run_of_another_version_is_refused_in_one_sentence_and_left_as_it_is(place, copy, change):
    begun_by(copy, "0.0.9")
    patch = change(copy) or nullcontext()
    before = snapshot_of(copy)
    sentence = rf"was started by metapl 0\.0\.9; this is {re.escape(metapl.__version__)}.*pip install metapl==0\.0\.9"
    with patch, pytest.raises(ConfigError, match=sentence):
        place.resume(copy.name)
    assert snapshot_of(copy) == before


def test_a_run_of_another_version_goes_on_if_its_checkpoints_fit(place, copy):
    begun_by(copy, "0.0.9")
    assert f"metapl was 0.0.9, is {metapl.__version__}" in place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


@pytest.mark.parametrize("how", ["damaged", "removed"])
def test_where_none_is_left_that_is_an_error_and_stays_one(place, copy, how):
    before = (copy / "metrics.jsonl").read_bytes()
    for path in (copy / "checkpoints").iterdir():
        (path / "note.json").unlink() if how == "damaged" else shutil.rmtree(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match="no good checkpoint"):
            place.resume(copy.name)
    assert (copy / "metrics.jsonl").read_bytes() == before
    assert len(kept(copy)) == (3 if how == "damaged" else 0)


def test_a_full_disk_costs_a_checkpoint_and_no_training(place):
    fails, real = [True, True, False], checkpoint._measure

    def full(path: Path):
        if fails and fails.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path)

    with mock.patch.object(checkpoint, "_measure", full):
        said = place.train("full")
    assert "checkpoint step-0000000007 could not be written: No space left on device" in said
    assert "without any checkpoint so far" in said
    assert not [name for name in kept(place.folder / "full") if not name.startswith("step-")]
    assert_same_run(place.folder / "full", place.folder / "whole")


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_run_goes_on_later(place, copy):
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with (
        mock.patch("metapl.runs.result.write_atomically", full),
        pytest.raises(ConfigError, match=r"result.json could not be written: No space.*metapl resume"),
    ):
        place.resume(copy.name)
    assert not (copy / "result.json").exists()
    place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


def test_a_full_disk_under_the_metrics_is_an_error_and_the_run_goes_on_later(place, copy):
    from metapl.runs import journal

    def full(self, *_) -> None:
        self._file.write(b'{"torn')
        with journal.explaining_disk_errors(self._path.parent):
            raise OSError(errno.ENOSPC, "No space left on device", str(self._path))

    with (
        mock.patch.object(journal.Journal, "write", full),
        pytest.raises(ConfigError, match=r"metrics.jsonl could not"),
    ):
        place.resume(copy.name)
    place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops(place, number):
    """The run is asked in its third chunk of steps, which no setting would save after."""
    name, calls, between = f"stopped-{number}", [], Saver.between

    def asked(self: Saver, snapshot, flush) -> None:
        calls.append(snapshot.step)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
            while self._stop.signal is None:
                sleep(0.01)
        between(self, snapshot, flush)

    with mock.patch.object(Saver, "between", asked), pytest.raises(Stopped) as stopped:
        place.train(name)
    assert stopped.value.exit_code == 128 + number
    assert f"metapl resume {place.folder / name}" in str(stopped.value)
    assert kept(place.folder / name)[-1] == f"step-{calls[-1]:010d}"
    assert len(calls) == 3
    place.resume(name)
    assert_same_run(place.folder / name, place.folder / "whole")


def test_a_run_is_never_overwritten(place, copy):
    with pytest.raises(ConfigError, match=f"unfinished run: metapl resume {copy}"):
        claim(copy)
    with pytest.raises(ConfigError, match="finished run, which is never overwritten"):
        claim(place.folder / "whole")


def test_another_process_on_the_run_is_locked_out_with_the_pid_of_the_first(place, copy):
    with locked(copy), pytest.raises(ConfigError, match=f"process {os.getpid()} on .* is working in"):
        place.resume(copy.name)


def test_where_the_work_cannot_be_shared_as_before_a_sentence_says_how(place, copy):
    parallel = sharding.Parallel("hybrid", 4)
    with pytest.raises(ConfigError, match=r"does not divide the 1 devices; metapl resume .* --mode auto uses"):
        resume_run(copy, None, Console(quiet=True), parallel)


def test_a_model_axis_without_its_mode_is_refused(copy):
    with pytest.raises(ConfigError, match="a model above 1 needs mode 'hybrid' or 'weights', got 'auto'"):
        resume_verb([str(copy), "--model", "4"])


def test_edited_settings_are_refused(place, copy):
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace("steps = 30", "steps = 31"))
    with pytest.raises(ConfigError, match="was edited after the run started"):
        place.resume(copy.name)


@pytest.mark.parametrize("file", ["environment.json", "split.json"])
def test_a_run_without_its_papers_is_refused(place, copy, file):
    cut(copy / file)
    cut(copy / file)
    with pytest.raises(ConfigError, match=f"{file} is missing or damaged"):
        place.resume(copy.name)


def test_a_split_that_is_no_table_is_refused(place, copy):
    (copy / "split.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"split\.json is missing or damaged"):
        place.resume(copy.name)


def test_other_metrics_than_before_are_refused(place, copy):
    flip(copy / "metrics.jsonl")
    with pytest.raises(ConfigError, match="lines are missing or were changed"):
        place.resume(copy.name)


def test_a_folder_that_is_no_run_is_named(place):
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        place.resume("nowhere")


def test_another_version_is_a_warning(place, copy):
    environment = json.loads((copy / "environment.json").read_text())
    environment["versions"]["jax"] = "0.9.9"
    (copy / "environment.json").write_text(json.dumps(environment))
    assert "jax was 0.9.9" in place.resume(copy.name)


def test_other_data_are_refused(place, copy):
    """Last of all: the other tests need the data as they are."""
    file = place.folder / "digits.npz"
    before = file.read_bytes()
    with np.load(file) as found:
        arrays = dict(found)
    arrays["images"][0, 0, 0] ^= 1
    np.savez(file, **arrays)
    with pytest.raises(ConfigError, match="the data are not those that the run started with"):
        place.resume(copy.name)
    file.write_bytes(before)
    place.resume(copy.name)
    assert_same_run(copy, place.folder / "whole")


STUDENTS = """
log_every_steps = 10
checkpoint = {every_steps = 7, keep = 2}
data = {name = "npz", file = "digits.npz", split = "npz@50#0"}
model = {hidden = [8], activation = "relu"}
[[stages]]
steps = 15
labeled_batch = 10
method = {name = "supervised"}
[[stages]]
steps = 25
labeled_batch = 10
unlabeled_batch = 10
method = {name = "noisy_student", keep.threshold = 0.05}
"""


@pytest.fixture(scope="module")
def students(tmp_path_factory) -> Place:
    found = Place(tmp_path_factory.mktemp("students"), STUDENTS, seeds=2)
    found.train("whole")
    return found


@pytest.mark.parametrize("harm", [None, cut, flip, Path.unlink])
def test_a_stage_that_learns_from_stored_predictions_goes_on_with_them_or_makes_them_again(students, harm):
    """The second seed crashes 21 steps into the stage that learns from its own teacher's predictions."""
    name = f"crashed-{harm}"
    between = Saver.between

    def checked(self: Saver, snapshot, flush) -> None:
        between(self, snapshot, flush)
        if self._progress.group == 1 and snapshot.stage == 1 and snapshot.step >= 21:
            self._writer.wait()
            raise Crash

    with mock.patch.object(Saver, "between", checked), pytest.raises(Crash):
        students.train(name)
    folder = students.folder / name
    assert "step-0000000055" in kept(folder)  # the teacher's last: beyond the two newest, but still needed
    if harm:
        harm(folder / "predictions-stage0-1.npy")
    said = students.resume(name)
    assert ("continuing from step-0000000055" in said) == (harm is not None)
    assert ("the stored predictions that its stage learns from are missing or damaged" in said) == (harm is not None)
    for path in folder.glob("damaged-*"):
        path.unlink()
    assert_same_run(folder, students.folder / "whole")


def test_a_student_that_learns_from_the_stage_before_goes_on_although_that_stages_network_is_gone(tmp_path):
    """Its checkpoint has the teacher, too."""
    learning = 'method = {name = "pseudo_labels"}'
    place = Place(tmp_path, STUDENTS.replace('method = {name = "noisy_student", keep.threshold = 0.05}', learning))
    place.train("whole")
    with crash_at(21), pytest.raises(Crash):  # the first stage has 15 steps
        place.train("crashed")
    assert "continuing from step-0000000036: step 21 of stage 2 of 2" in place.resume("crashed")
    assert_same_run(place.folder / "crashed", place.folder / "whole")
