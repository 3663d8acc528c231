"""A run with adapters is exported as the plain network that computes the same."""

import json

from safetensors import safe_open

from metapl.cli import main as cli
from tests.tiny_run import make_run

SETTINGS = """
[data]
name = "folder"
size = 6
[model]
name = "vit"
patch = 3
resolution = 6
width = 8
depth = 1
heads = 2
lora_rank = 2
"""


def test_adapters_are_merged(tmp_path, monkeypatch):
    """Each file is compared with the run before it is kept, so that a wrong sum would end with an error."""
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "run", SETTINGS)
    cli.main(["export", str(run), "--onnx", "--safetensors", "--out", "exported"])
    with safe_open("exported/model.safetensors", framework="numpy") as file:
        assert not any("lora" in name for name in file.keys())  # noqa: SIM118 (it is not a mapping)
        assert json.loads(file.metadata()["model"])["lora_rank"] == 0
    with safe_open(run / "weights.safetensors", framework="numpy") as file:
        assert any("lora" in name for name in file.keys())  # noqa: SIM118
    assert "lora" not in (tmp_path / "exported" / "model_card.md").read_text()
