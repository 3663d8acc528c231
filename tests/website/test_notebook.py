"""The notebook runs from its first cell to its last, and its outputs are what a reader expects."""

import os
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "own_pictures.ipynb"


def test_it_has_ten_cells_and_no_stored_output():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert len(notebook.cells) == 10
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.filterwarnings("default")  # whatever Jupyter's versions warn of is not ours
def test_it_runs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = "\n".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    assert "Wrote check/audit.json" in told
    assert "# Verdict" in told
    assert "path,class," in told
    assert (tmp_path / "runs/mine/model.json").is_file()
