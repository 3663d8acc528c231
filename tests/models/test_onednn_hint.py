"""Who trains networks with convolutions on a CPU learns of the extension once, if it would help."""

from pathlib import Path

import pytest

from metapl.cli import main as cli
from metapl.cli import train
from metapl.models import onednn
from metapl.system import runtime


@pytest.fixture(autouse=True)
def without_extension(monkeypatch):
    """A CPU that would profit from the extension, which is not installed."""
    monkeypatch.setattr(onednn, "available", lambda: False)
    monkeypatch.setattr(onednn, "find_spec", lambda name: None)
    monkeypatch.setattr(onednn.jax, "device_count", lambda: 1)
    monkeypatch.setattr(runtime, "is_cpu", lambda: True)
    monkeypatch.setattr(runtime, "has_avx512", lambda: True)
    monkeypatch.setattr(runtime, "start", lambda: None)


def test_it_names_the_folder_to_install():
    assert (Path(onednn.hint().partition("pip install ")[2]) / "setup.py").is_file()


def test_outside_of_a_clone_it_says_where_to_find_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(onednn.metapl, "__file__", str(tmp_path / "site-packages/metapl/__init__.py"))
    assert "in a clone of metapl" in onednn.hint()


def test_a_package_that_cannot_be_loaded_is_to_be_installed_again(monkeypatch):
    monkeypatch.setattr(onednn, "find_spec", lambda name: object())
    assert "install it again" in onednn.hint()


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (onednn, "available", True),
        (runtime, "is_cpu", False),
        (runtime, "has_avx512", False),
        (onednn.jax, "device_count", 2),
    ],
)
def test_it_says_nothing_where_the_extension_is_there_or_would_not_help(monkeypatch, module, name, value):
    monkeypatch.setattr(module, name, lambda: value)
    assert onednn.hint() == ""


@pytest.mark.parametrize(("preset", "times"), [("cifar10_4k_uda_small", 1), ("two_moons_uda", 0)])
def test_train_gives_it_once_for_networks_with_convolutions(monkeypatch, tmp_path, capsys, preset, times):
    monkeypatch.setattr(train, "start_run", lambda *_: None)
    cli.main(["train", preset, "--out", str(tmp_path / "run")])
    assert " ".join(capsys.readouterr().out.split()).count("an extension makes convolutions") == times


def test_the_processors_abilities_are_words(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(runtime, "_about_processor", lambda topic: "fma avx512_bf16")
    assert not runtime.has_avx512()
    monkeypatch.setattr(runtime, "_about_processor", lambda topic: "fma avx512f")
    assert runtime.has_avx512()
