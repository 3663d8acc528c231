"""Quotes from the repository's files, by name, so that a page always shows the present code."""

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class StaleError(Exception):
    """A page quotes something that does not exist any more."""


class Quote(NamedTuple):
    """Lines of a file."""

    path: str
    first: int  # counted from 1
    lines: list[str]

    @property
    def place(self) -> str:
        """Path and line numbers, for readers."""
        last = self.first + len(self.lines) - 1
        return f"{self.path}, line {self.first}" if last == self.first else f"{self.path}, lines {self.first} to {last}"

    @property
    def text(self) -> str:
        """The lines without the indentation that they share."""
        margin = min(len(line) - len(line.lstrip()) for line in self.lines if line.strip())
        return "\n".join(line[margin:] for line in self.lines)


def quote(path: str, symbol: str = "", beginning: str = "") -> Quote:
    """Quote a file, a function or class in it (`build.step`: a function in a function), or one statement in that."""
    lines = _read(path).splitlines()
    first, last = _where(path, symbol) if symbol else (1, len(lines))
    if beginning:
        first, last = _statement(path, symbol, lines, first, last, beginning)
    return Quote(path, first, lines[first - 1 : last])


def find(path: str, symbol: str) -> ast.AST:
    """The definition of a function, a class or a name in a file."""
    node: ast.AST = ast.parse(_read(path))
    for name in symbol.split("."):
        inside = [child for child in ast.walk(node) if child is not node and _names(child, name)]
        if not inside:
            raise StaleError(f"{path} has no {symbol}")
        node = inside[0]
    return node


def _read(path: str) -> str:
    if not (ROOT / path).is_file():
        raise StaleError(f"there is no file {path}")
    return (ROOT / path).read_text("utf-8")


def _names(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _where(path: str, symbol: str) -> tuple[int, int]:
    node = find(path, symbol)
    assert isinstance(node, ast.stmt)
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno or node.lineno


def _statement(path: str, symbol: str, lines: list[str], first: int, last: int, beginning: str) -> tuple[int, int]:
    """First and last line of the one statement that begins with these characters."""
    inner = [
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.stmt) and first <= node.lineno <= last
    ]
    matches = sorted(
        {
            (node.lineno, node.end_lineno or node.lineno)
            for node in inner
            if lines[node.lineno - 1].strip().startswith(beginning)
        }
    )
    if len(matches) != 1:
        raise StaleError(f"{path}: {symbol} has {len(matches)} statements that begin with {beginning!r}, not one")
    return matches[0]
