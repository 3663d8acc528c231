"""A source by what a person calls it."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapl.data.open_source import open_source, settings_beside, settings_of
from metapl.data.sources.cifar import Cifar10
from metapl.data.sources.csv_list import CsvList
from metapl.data.sources.digits import Digits
from metapl.data.sources.folder import Folder
from metapl.data.sources.npz import Npz
from metapl.schema import ConfigError


def test_names_splits_and_paths(tmp_path: Path) -> None:
    assert settings_of("digits") == Digits()
    assert settings_of("cifar10-4k") == Cifar10(split="cifar10-4k")
    assert settings_of("digits@50#3") == Digits(split="digits@50#3")
    assert settings_of(str(tmp_path)) == Folder(path=str(tmp_path.resolve()))
    assert settings_of("my/list.csv") == CsvList(file=str(Path("my/list.csv").resolve()))
    assert settings_of("x.npz") == Npz(file=str(Path("x.npz").resolve()))


def test_a_folder_beside_is_found_and_does_not_hide_a_source_of_its_name(tmp_path: Path) -> None:
    for name in ("cifar10", "birds"):
        (tmp_path / name).mkdir()
    assert settings_beside("cifar10", [tmp_path]) == Cifar10()
    assert settings_beside("birds", [tmp_path]) == Folder(path=str((tmp_path / "birds").resolve()))


@pytest.mark.parametrize("text", ["digitz", "digits@", "two_moons", "nowhere/at/all", "cifar10-5k"])
def test_what_is_none_of_them_is_told_what_there_is(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not there: expected a folder, or .*: .csv, .npz.* \(digits, cifar10, "):
        settings_of(text)


def test_a_file_of_another_kind_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "0.png").touch()
    with pytest.raises(ConfigError, match=r"0.png' is not a folder or one of these files: .csv, .npz"):
        settings_of(str(tmp_path / "0.png"))


def test_a_named_pipe_is_no_list(tmp_path: Path) -> None:
    """To open it would take for ever."""
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ConfigError, match=r"pipe.csv' is not a folder or one of these files"):
        settings_of(str(tmp_path / "pipe.csv"))


def test_a_name_comes_before_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert settings_of("digits") == Digits()
    assert settings_of("./digits") == Folder(path=str((tmp_path / "digits").resolve()))


def test_of_a_split_the_parts_are_its_roles() -> None:
    found = open_source("digits@50#3", ())
    assert {name: len(part.labels) for name, part in found.parts.items()} == {
        "labeled": 50,
        "unlabeled": 1437,
        "test": 360,
    }
    assert np.all(found.parts["unlabeled"].labels == -1)  # nobody sees them
    assert np.bincount(found.parts["labeled"].labels).tolist() == [5] * 10


def test_a_folder_is_opened_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "labeled" / "a cat").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "labeled" / "a cat" / "1.png")
    found = open_source(str(tmp_path), ())
    assert found.class_names == ("a cat",)
    assert set(found.parts) == {"train"}


def test_a_folder_of_train_and_val_is_understood(tmp_path: Path) -> None:
    for part in ("train", "val"):
        (tmp_path / part / "a").mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / part / "a" / "1.png")
    assert set(open_source(str(tmp_path), ()).parts) == {"train", "val"}
    (tmp_path / "labeled").mkdir()
    assert settings_of(str(tmp_path)) == Folder(path=str(tmp_path.resolve()))


def test_only_mirrored_pictures_that_keep_their_class_are_mirrored() -> None:
    assert not settings_of("digits").mirrored
    assert not settings_of("svhn").mirrored
    assert settings_of("cifar10").mirrored
