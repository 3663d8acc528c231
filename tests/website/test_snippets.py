"""Code in README and docs is run, or quoted from a file that is run."""

import ast
import doctest
import re
import tomllib

import classifier
import numpy as np
import pytest
from sklearn.datasets import load_digits

from metapl import config as configs
from metapl.schema import ConfigError

from .pages import PAGES, ROOT, blocks

CODE = [(page, block) for page in PAGES for block in blocks(page.read_text("utf-8"))]
EXPLAINED = "src/metapl/algorithms/entropy.py"  # where docs/add_a_method.md says that its example would be
KEYS = {"preset", "stages", "data", "model", "augmentation", "init_from", "seed"}


def is_python(block: str) -> bool:
    """Whether a block is a Python program, and not text that happens to parse."""
    try:
        body = ast.parse(block).body
    except SyntaxError:
        return False
    return any(isinstance(part, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef) for part in body)


def test_python_blocks_are_run_or_quoted():
    """The only program written in a page is README's, and a test below runs it."""
    assert [page.name for page, block in CODE if is_python(block)] == ["README.md"]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if ">>> " in page.read_text("utf-8")], ids=lambda page: page.name
)
def test_doctests_show_the_right_output(page):
    results = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert results.attempted
    assert not results.failed


def test_the_programs_run(tmp_path, monkeypatch):
    """The example of the classifier, and then README's, on data of the same shapes: they are compiled once.

    On features: pictures would take half a minute to compile.
    """
    features, truth = load_digits(return_X_y=True)
    scores = classifier.compare(features, truth, steps=3, folder=tmp_path)
    assert set(scores) == {"50 labels alone", "with the others unlabelled"}

    monkeypatch.chdir(tmp_path)
    (program,) = (block for page, block in CODE if page.name == "README.md" and is_python(block))
    train = len(features) * 3 // 4
    y = np.where(np.arange(train) < 50, truth[:train], -1)
    names = {"X": features[:train], "y": y, "X_new": features[train:]}
    exec(program.replace("MetaPseudoLabels(", "MetaPseudoLabels(steps=3, "), names)
    assert names["model"].predict(features[:5]).shape == (5,)
    assert (tmp_path / "models/mine").is_dir()


def test_settings_can_be_read():
    """Blocks of TOML with the keys of a run's settings."""
    read = []
    for page, block in CODE:
        try:
            keys = set(tomllib.loads(block))
        except tomllib.TOMLDecodeError:
            continue
        if keys and keys <= KEYS and page.name != "add_a_method.md":  # its method is not in the table of methods
            try:
                configs.parse(block, page.name)
            except ConfigError as error:
                pytest.fail(f"{error}\n{block}")
            read.append(page.name)
    assert {"index.md", "models.md", "methods.md"} <= set(read)


def test_files_that_pages_name_exist():
    """`src/…`, `tests/…`, `examples/…`, `benchmarks/…` in a sentence."""
    for page in PAGES:
        for name in re.findall(r"\b(?:src|tests|examples|benchmarks)/[\w/]+\.py", page.read_text("utf-8")):
            assert name == EXPLAINED or (ROOT / name).is_file(), f"{page.name} names {name}"
