"""The table of sources."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from metapl import data
from metapl.data import pictures
from metapl.data.sources.digits import Digits
from metapl.data.sources.folder import Folder
from metapl.data.sources.source import DataError
from metapl.data.splits import assemble
from metapl.schema import from_dict, to_dict, validate


@pytest.mark.parametrize("kind", pictures.READERS)
def test_settings_have_a_name_and_come_back_from_a_dict(kind: type) -> None:
    config = kind()
    validate(config)
    values = to_dict(config)
    assert values.pop("name") == kind.name
    assert from_dict(kind, values, {}) == config


def test_names_are_unique() -> None:
    names = [kind.name for kind in pictures.READERS]
    assert sorted(names) == sorted(set(names))
    expected = {"digits", "cifar10", "cifar100", "svhn", "mnist", "fashion_mnist", "folder", "csv", "npz", "tfrecord"}
    expected |= {"webdataset", "parquet"}
    assert set(names) == expected


def test_reading_goes_by_the_settings() -> None:
    assert len(pictures.read(Digits(), []).parts["test"].images) == 360


def test_loading_goes_by_the_split() -> None:
    data = pictures.load(Digits(split="digits@40#2"), [])
    assert (len(data.images("labeled")), len(data.images("unlabeled")), len(data.images("test"))) == (40, 1437, 360)
    assert data.manifest["split"] == "digits@40#2"
    assert len(pictures.load(Digits(), []).images("labeled")) == 1437


def test_sources_do_without_jax() -> None:
    modules = "metapl.data.sources.source, metapl.data.sources.cifar, metapl.data.splits.assemble"
    code = f"import sys, {modules}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_files_become_arrays_of_one_size(tmp_path: Path) -> None:
    sizes = {"a": (8, 6), "b": (5, 9)}
    for name, size in sizes.items():
        (tmp_path / "labeled" / name).mkdir(parents=True)
        Image.new("RGB", size, (10, 20, 30)).save(tmp_path / "labeled" / name / "1.png")
    dataset = pictures.load(Folder(path=str(tmp_path)), [tmp_path])
    arrays = assemble.in_memory(dataset, size=4)
    assert arrays.labeled.shape == (2, 4, 4, 3)
    assert arrays.test.shape[0] == 0
    assert arrays.manifest == dataset.manifest
    with pytest.raises(DataError, match=r"2 sizes, from \(6, 8, 3\) to \(9, 5, 3\); give a size"):
        assemble.in_memory(dataset, size=0)


def test_more_than_memory_holds_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labeled" / "a").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "labeled" / "a" / "1.png")
    monkeypatch.setattr(assemble, "MEMORY_LIMIT", 100)
    with pytest.raises(DataError, match="1 pictures of 192 bytes each do not fit"):
        assemble.in_memory(pictures.load(Folder(path=str(tmp_path)), [tmp_path]), size=0)


def test_pictures_held_out_for_validation_come_along(tmp_path: Path) -> None:
    for place, grey in (("labeled/a", 1), ("labeled/b", 2), ("val/b", 3), ("val/a", 4), ("test/a", 5)):
        (tmp_path / place).mkdir(parents=True)
        Image.new("RGB", (4, 4), (grey, grey, grey)).save(tmp_path / place / "1.png")
    (dataset,) = data.load(Folder(), [0], [tmp_path])
    assert dataset.val is not None
    assert dataset.val[:, 0, 0, 0].tolist() == [4, 3]
    assert dataset.val_labels is not None
    assert dataset.val_labels.tolist() == [0, 1]
    (without,) = data.load(Digits(), [0], [])
    assert without.val is None
    assert without.val_labels is None


def test_real_labels_go_to_files_by_their_names(tmp_path: Path) -> None:
    names = [f"n{i:04}" for i in range(1000)]
    for name in names:
        (tmp_path / "labeled" / name).mkdir(parents=True)
        (tmp_path / "labeled" / name / "1.png").touch()
    (tmp_path / "test" / "n0007").mkdir(parents=True)
    (tmp_path / "test" / "n0007" / "ILSVRC2012_val_00000002.JPEG").touch()
    (tmp_path / "real.json").write_text(json.dumps([[1], [7, 8], *[[0]] * 49_998]))
    mask = pictures.load(Folder(real_labels="real.json"), [tmp_path]).test_real
    assert mask is not None
    assert [row.nonzero()[0].tolist() for row in mask] == [[7, 8]]
