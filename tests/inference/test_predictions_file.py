"""A file of predictions that grows: continued after a stop, and never mistaken for another."""

import numpy as np
import pytest

from metapl.inference.predictions_file import PredictionsFile
from metapl.schema import ConfigError

ROWS = np.eye(4, 3, dtype=np.float16)


def file_of(folder, weights: str = "a") -> PredictionsFile:
    return PredictionsFile(folder / "p.npy", {"weights_sha256": weights, "rows": 4}, 3)


def test_it_grows_to_the_rows_that_were_written(tmp_path):
    file = file_of(tmp_path / "new")
    assert file.progress() == (0, {})
    file.write(0, ROWS[:3], {"unreadable": {1: "why"}})
    again = file_of(tmp_path / "new")
    assert again.progress() == (3, {"unreadable": {"1": "why"}})
    again.write(3, ROWS[3:])
    assert not file.path.exists()
    again.finish()
    np.testing.assert_array_equal(again.read(), ROWS)
    assert file_of(tmp_path / "new").progress().rows == 4
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["p.npy", "p.npy.json"]


def test_files_of_another_origin_are_refused(tmp_path):
    file_of(tmp_path).write(0, ROWS[:2])
    with pytest.raises(ConfigError, match=r"p\.npy\.partial holds predictions of another network"):
        file_of(tmp_path, "b").progress()


def test_a_note_alone_is_started_anew_and_files_beside_need_a_note(tmp_path):
    file_of(tmp_path).write(0, ROWS[:2])
    (tmp_path / "p.npy.partial").unlink()
    assert file_of(tmp_path, "b").progress().rows == 0
    assert file_of(tmp_path).progress(beside=(tmp_path / "p.npy.json",)).rows == 0
    (tmp_path / "p.npy.json").unlink()
    (tmp_path / "p.txt").write_text("precious")
    with pytest.raises(ConfigError, match=r"p\.txt: its metadata file p\.npy\.json is missing or damaged"):
        file_of(tmp_path).progress(beside=(tmp_path / "p.txt",))
