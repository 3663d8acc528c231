"""Tar shards and Parquet files through the verbs: check, select, fit, train and resume."""

import io
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from metapl.cli.main import main
from metapl.data import pictures
from metapl.data.reading.packed import Packed
from metapl.fit import listing
from metapl.fit.examine import examine, read_roles
from metapl.runs.saver import Saver
from tests.data.shard_files import sample, write_parquet, write_tar
from tests.fit.pictures import console

NAMES = ["zero", "one", "two"]
KINDS = ["tar", "parquet"]


def encoded(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray((pixels * 15.9).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def shards(request, tmp_path, monkeypatch) -> Path:
    """Digits 0 to 2: 90 labelled and 60 unlabelled pictures in two files of train, and a file of test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digits = load_digits()
    rows = np.flatnonzero(digits.target < 3)[:200]
    found = [(encoded(digits.images[row]), int(digits.target[row])) for row in rows]
    files = {"train-0": found[:75], "train-1": found[75:150], "test-0": found[150:]}
    for name, content in files.items():
        given = [
            (picture, label if name == "test-0" or i % 5 < 3 else None) for i, (picture, label) in enumerate(content)
        ]
        place = tmp_path / "shards" / f"{name}.{request.param}"
        if request.param == "tar":
            write_tar(place, [member for i, (p, y) in enumerate(given) for member in sample(f"{name}_{i}", p, y)])
        else:
            write_parquet(place, [p for p, _ in given], [y for _, y in given], NAMES)
    return tmp_path / "shards"


@pytest.mark.parametrize("shards", KINDS, indirect=True)
def test_check_and_select(shards, capsys):
    main(["data", "check", str(shards), "--out", "audit"])
    audit = json.loads(Path("audit/audit.json").read_text())
    assert [(part["pictures"], part["unlabeled"]) for part in audit["parts"].values()] == [(150, 60), (50, 0)]
    assert audit["parts"]["train"]["modes"] == {"L": 150}
    np.save("p.npy", np.full((150, 3), 1 / 3, np.float32))
    words = [
        "--pictures",
        str(shards),
        "--part",
        "train",
        "--leave-out",
        str(shards),
        "--per-class",
        "5",
        "--near",
        "0",
    ]
    main(["data", "select", "p.npy", *words, "--out", "kept"])
    assert len(Path("kept/selection.csv").read_text().splitlines()) == 16


@pytest.mark.parametrize("shards", KINDS, indirect=True)
def test_fit_lists_every_picture_and_the_runs_read_the_same_ones(shards, tmp_path):
    listed = listing.make_listing(examine(read_roles(str(shards), ()), console()), False, 0)
    listing.write(listed, tmp_path)
    config = listing.settings(tmp_path, 0)
    assert config is not None
    loaded = pictures.load(config, ())
    for role, part in listed.roles.items():
        assert isinstance(part.images, Packed)
        assert [loaded.images(role)[i].tobytes() for i in range(len(part.images))] == [
            part.images[i].tobytes() for i in range(len(part.images))
        ]


SETTINGS = """
log_every_steps = 10
[data]
name = "{name}"
path = "{path}"
size = 8
feed = "files"
workers = 0
[augmentation]
weak = {{flip = false, shift_pixels = 0}}
[model]
hidden = [16]
activation = "relu"
[checkpoint]
every_steps = 10
every_minutes = 60.0
[[stages]]
steps = 40
labeled_batch = 20
unlabeled_batch = 20
method = {{name = "fixmatch", optimizer = {{learning_rate = 0.3}}}}
"""


class Crash(BaseException):
    """As if the power had gone."""


@pytest.mark.parametrize("shards", KINDS, indirect=True)
def test_train_resumes_to_the_same_bits_and_refuses_a_changed_picture(shards, capsys):
    name = "webdataset" if next(shards.iterdir()).suffix == ".tar" else "parquet"
    Path("mine.toml").write_text(SETTINGS.format(name=name, path=shards))
    main(["train", "mine.toml", "--out", "whole"])
    between, calls = Saver.between, []

    def crash(self, *args, **kwargs):
        calls.append(1)
        between(self, *args, **kwargs)
        if len(calls) == 3:
            raise Crash

    with mock.patch.object(Saver, "between", crash), pytest.raises(Crash):
        main(["train", "mine.toml", "--out", "cut"])
    assert not Path("cut/result.json").exists()
    shard = next(shards.glob("train-0.*"))
    before = shard.read_bytes()
    damaged = bytearray(before)
    damaged[before.index(b"IDAT") + 6] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(SystemExit):
        main(["resume", "cut"])
    assert "train-0" in (error := capsys.readouterr().err) or "the data are not those" in error
    shard.write_bytes(before)
    main(["resume", "cut"])
    assert Path("whole/weights.safetensors").read_bytes() == Path("cut/weights.safetensors").read_bytes()
