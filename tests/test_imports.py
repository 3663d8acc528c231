"""Imports point one way, as CONTRIBUTING's map says; some rooms do without jax, or without methods' names."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metapl

ROOT = Path(metapl.__file__).parent

REPO = Path(__file__).parents[1]
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__main__.py" and path != ROOT / "__init__.py")
GUARDS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "guards").glob("*.py"))]


def floors_on_the_map() -> dict[str, int]:
    """Room -> floor, as CONTRIBUTING's map has it."""
    rows = re.findall(r"^    (\d+) +([\w/]+)  ", (REPO / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len({room for _, room in rows}), "a room is on the map twice"
    return {room.removesuffix("/"): int(floor) for floor, room in rows}


FLOOR_OF = floors_on_the_map()


def room_of(module: str) -> str:
    """The room of a module: a name at the top of the package, or a part of data."""
    parts = module.split(".")[1:]
    if parts[:1] == ["data"] and (ROOT / "/".join(parts[:2])).is_dir():
        return "/".join(parts[:2])
    return parts[0] if parts else ""


def module_of(path: Path) -> str:
    return ".".join(("metapl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Rooms that a file imports from, wherever in the file it does."""
    names = {module_of(module) for module in MODULES}
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metapl":
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            rooms |= {room_of(name if name in names else node.module) for name in whole}
        elif isinstance(node, ast.Import):
            rooms |= {room_of(alias.name) for alias in node.names if alias.name.split(".")[0] == "metapl"}
    return rooms - {""}


def test_the_map_has_every_room_and_no_other():
    assert {room_of(module_of(path)) for path in MODULES} - {"presets", "studies"} == set(FLOOR_OF)


def test_the_map_goes_from_the_top_floor_down():
    assert list(FLOOR_OF.values()) == sorted(FLOOR_OF.values(), reverse=True)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_to_lower_floors(path):
    own = room_of(module_of(path))
    for other in imports(path) - {own}:
        assert FLOOR_OF[other] < FLOOR_OF[own], f"{own} must not import {other}"


@pytest.mark.parametrize(
    "module", ["metapl.data", "metapl.cli.main", "metapl.schema", "metapl.runs.find", "metapl.cli.doctor"]
)
def test_sources_and_the_command_line_start_without_jax(module):
    code = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_training_starts_without_packages_that_few_runs_use():
    """They take as long as all others together."""
    code = "import sys, metapl.runs.start; sys.exit({'sklearn', 'scipy.stats', 'scipy.io'} & set(sys.modules) != set())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_method_is_named_outside_its_room():
    """The loop and its neighbours must not branch on a method: they know the contract only."""
    from metapl.algorithms import METHODS

    names = {kind.name for kind in METHODS} | {kind.__name__ for kind in METHODS}
    for file in (
        "train/loop.py",
        "train/program.py",
        "train/feeding.py",
        "evaluate/held_out.py",
        "train/groups.py",
        "evaluate/results.py",
        "runs/runlog.py",
        "runs/start.py",
        "runs/work.py",
        "runs/result.py",
        *(f"optim/{name}.py" for name in ("__init__", "by_layer", "descent", "schedule", "settings")),
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
