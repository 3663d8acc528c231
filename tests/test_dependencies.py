"""What `pip install metapl` brings is what demo, train, fit and predict use; the rest is in extras."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import metapl

ROOT = Path(metapl.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = {  # distributions whose modules have other names
    "orbax-checkpoint": {"orbax"},
    "scikit-learn": {"sklearn"},
    "pillow": {"PIL"},
    "absl-py": {"absl"},
    "jinja2": {"jinja2", "markupsafe"},
    "tensorboardx": {"tensorboardX"},
    "mlflow-skinny": {"mlflow"},
    "optuna": {"optuna", "sqlalchemy"},  # and what they themselves require
    "huggingface_hub": {"huggingface_hub", "tqdm"},
    "alembic": set(),
    "psycopg": set(),  # SQLAlchemy, which optuna uses, loads it by name
}
BY_ITSELF = {"jax": {"jax", "jaxlib"}}


def modules_of(requirements: list[str]) -> dict[str, set[str]]:
    names = [re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements]
    return {name: MODULES.get(name, BY_ITSELF.get(name, {name.replace("-", "_")})) for name in names}


def files_behind(*starts: str) -> set[Path]:
    """The modules that these modules import, and those that they import."""
    found: set[Path] = set()
    waiting = [ROOT / start for start in starts]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [other for name in imported(path) if (other := file_of(name))]
    return found


def imported(path: Path) -> set[str]:
    """Names of modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def file_of(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] != "metapl":
        return None
    place = ROOT.joinpath(*parts[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def third_party(paths: set[Path]) -> set[str]:
    tops = {name.partition(".")[0] for path in paths for name in imported(path)}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "metapl"}


def test_every_dependency_is_used_by_demo_train_fit_or_predict():
    used = third_party(files_behind("cli/demo.py", "cli/train.py", "cli/fit.py", "cli/predict.py"))
    unused = [name for name, modules in modules_of(PROJECT["dependencies"]).items() if not modules & used]
    assert unused == []


def test_everything_that_is_imported_is_a_dependency_or_an_extra():
    extras = [line for name, lines in PROJECT["optional-dependencies"].items() if name != "dev" for line in lines]
    known = set().union(*modules_of([*PROJECT["dependencies"], *extras]).values())
    ours = {"metapl_onednn"}  # extensions/onednn: installed from this repository, on request
    assert third_party(set(ROOT.rglob("*.py"))) - known == ours
