"""Imports point one way: cli → train → algorithms, data → models, augment → types."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import metapl

ROOT = Path(metapl.__file__).parent

# From the ground up; a module may import from rows above its own, and from its own package.
FLOORS = [
    {"", "schema"},
    {
        "types",
        "disk",
        "folders",
        "flags",
        "lock",
        "measures",
        "no_run",
        "pace",
        "signals",
        "statistics",
        "runtime",
        "runs",
    },
    {"processes", "sharding"},
    {"parts"},
    {"optim", "models", "augment", "checkpoint", "journal", "results", "scores", "sinks", "status", "temperature"},
    {"data", "algorithms", "weights", "guards", "screen"},
    {"config", "distributions"},
    {"program", "recipe"},
    {"feeding"},
    {"train"},
    {"evaluate", "groups", "rundir", "runlog", "saver"},
    {"label_paths"},
    {"run", "bench", "evaluate_run", "smoke", "doctor"},
    {"predictor", "estimator"},
    {"predict", "export", "report"},
    {"pseudo_label"},
    {"demo", "fit", "plan"},
    {"data_cli"},
    {"run_cli", "sweep", "serve"},
    {"watch"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(ROOT.rglob("*.py"))
GUARDS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "guards").glob("*.py"))]


def room(parts: tuple[str, ...]) -> str:
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> set[str]:
    """Rooms of the house that a file imports from, wherever in the file it does."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metapl":
            parts = tuple(node.module.split("."))
            rooms |= {room(parts)} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {room(tuple(a.name.split("."))) for a in node.names if a.name.split(".")[0] == "metapl"}
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = room(("metapl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix("__init__")
    assert own in FLOOR_OF, f"{own} has no floor yet: add it to FLOORS"
    for other in imports(path) - {own}:
        assert FLOOR_OF[other] < FLOOR_OF[own], f"{own} must not import {other}"


@pytest.mark.parametrize("module", ["metapl.data", "metapl.cli", "metapl.schema", "metapl.runs", "metapl.doctor"])
def test_sources_and_the_command_line_start_without_jax(module):
    code = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_method_is_named_outside_its_room():
    """The loop and its neighbours must not branch on a method: they know the contract only."""
    from metapl.algorithms import METHODS

    names = {kind.name for kind in METHODS} | {kind.__name__ for kind in METHODS}
    for file in (
        "train.py",
        "program.py",
        "feeding.py",
        "evaluate.py",
        "groups.py",
        "results.py",
        "runlog.py",
        "run.py",
        "optim.py",
        *GUARDS,
    ):
        words = {
            node.value
            for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
            if isinstance(node, ast.Constant)
        }
        words |= {
            node.id for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))) if isinstance(node, ast.Name)
        }
        assert not names & {word for word in words if isinstance(word, str)}, file
