"""The table of sources."""

import subprocess
import sys

import pytest

from metapl.data import pictures
from metapl.data.digits import Digits
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
    assert set(names) == expected


def test_reading_goes_by_the_settings() -> None:
    assert len(pictures.read(Digits(), []).parts["test"].images) == 360


def test_loading_goes_by_the_split() -> None:
    data = pictures.load(Digits(split="digits@40#2"), [])
    assert (len(data.labeled), len(data.unlabeled), len(data.test)) == (40, 1437, 360)
    assert data.manifest["split"] == "digits@40#2"
    assert len(pictures.load(Digits(), []).labeled) == 1437


def test_sources_do_without_jax() -> None:
    code = "import sys, metapl.data.source, metapl.data.cifar, metapl.data.assemble; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
