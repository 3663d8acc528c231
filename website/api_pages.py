"""The reference for Python programs, made from signatures, docstrings and fields in the source."""

import ast
import html
import re

import quotes

Part = tuple[str, str, list[tuple[str, str]]]

PARTS: list[Part] = [
    (
        "The classifier",
        "`from metapl import MetaPseudoLabels`, by scikit-learn's conventions. [More](own_pictures.md).",
        [("estimator.py", "MetaPseudoLabels")],
    ),
    (
        "Settings",
        "`metapl.config`: the settings of a file or a preset. All are frozen; every field is also a flag "
        "([the command line](cli.md)).",
        [("config.py", name) for name in ("load", "parse", "dump", "presets", "Config", "Stage", "Checkpoint")],
    ),
    (
        "Data, training, evaluation",
        "The parts of `metapl train`. [How it works](how_it_works.md) shows which part calls which.",
        [
            ("data/__init__.py", "load"),
            ("train/loop.py", "train"),
            ("evaluate/held_out.py", "accuracies"),
            ("runs/start.py", "start_run"),
            ("runs/resume.py", "resume_run"),
            ("system/runtime.py", "start"),
        ],
    ),
    (
        "A finished run",
        "Load weights and predict.",
        [
            ("evaluate/predictor.py", "load"),
            ("evaluate/predictor.py", "Predictor"),
            ("weights.py", "about"),
            ("weights.py", "load"),
        ],
    ),
    (
        "The contracts",
        "`metapl.types`: what the loop needs from methods and networks. [Add a method](add_a_method.md) uses them.",
        [
            ("types.py", name)
            for name in ("Algorithm", "Network", "Apply", "Batch", "Views", "Weights", "Learner", "MethodConfig")
        ],
    ),
    (
        "Methods, networks, feedback",
        "Functions that turn settings into methods, networks and optimizers, and the settings.",
        [
            ("algorithms/__init__.py", "build"),
            ("models/__init__.py", "build"),
            ("optim/descent.py", "build"),
            ("optim/settings.py", "Optimizer"),
            ("algorithms/mpl.py", "MPL"),
            ("algorithms/feedback.py", "Feedback"),
            ("algorithms/feedback.py", "StudentUpdate"),
            ("algorithms/uda.py", "Consistency"),
        ],
    ),
]


def page() -> str:
    """The whole page."""
    parts = []
    for title, sentence, symbols in PARTS:
        parts += [f"## {title}", sentence, *(_entry(f"src/metapl/{path}", symbol) for path, symbol in symbols)]
    return "\n\n".join(parts)


def _entry(path: str, symbol: str) -> str:
    node = quotes.find(path, symbol)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    module = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parts = [f"### {module}.{symbol}"]
    if isinstance(node, ast.FunctionDef):
        return "\n\n".join([*parts, _code(_signature(node)), _docstring(node)])
    if any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in node.bases):
        return "\n\n".join([*parts, _code(_without_docstring(path, symbol, node)), _docstring(node)])
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]
    start = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    parts += [_code(_signature(start[0], symbol))] if start else []
    parts += [_docstring(node), _fields(node)]
    for method in methods:
        if ast.get_docstring(method) and method.name != "check":
            parts += [_code(_property(method) or _signature(method)), _docstring(method)]
    return "\n\n".join(filter(None, parts))


def _signature(node: ast.FunctionDef, name: str = "") -> str:
    arguments = _arguments(node.args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and not name else ""
    line = f"{name or node.name}({', '.join(arguments)}){returns}"
    if len(line) <= 90:
        return line
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name or node.name}(\n{inner}){returns}"


def _property(node: ast.FunctionDef) -> str:
    """What is asked for without brackets."""
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return f"{node.name}: {ast.unparse(node.returns)}" if "property" in marks and node.returns else ""


def _arguments(args: ast.arguments) -> list[str]:
    """Each with its type and default, as it stands in the source; `self` is nobody's to give."""
    defaults = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
    named = [(arg, default) for arg, default in zip(args.args, defaults, strict=True) if arg.arg not in ("self", "cls")]
    made = [_argument(arg, default) for arg, default in named]
    made += ["*"] if args.kwonlyargs else []
    return made + [_argument(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(arg) + (f" = {ast.unparse(default)}" if default else "")


def _docstring(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The docstring: paragraphs as text; indented parts and numpy's tables as code."""
    text = ast.get_docstring(node) or ""
    if "----" in text:
        first, _, rest = text.partition("\n")
        return f"<p>{html.escape(first)}</p>\n\n{_code(rest.strip(), '')}"
    return "\n\n".join(map(_paragraph, text.split("\n\n"))) if text else ""


def _paragraph(text: str) -> str:
    if any(line.startswith("    ") for line in text.splitlines()):
        return _code(text, "")
    return f"<p>{_marked(' '.join(text.split()))}</p>"


def _marked(text: str) -> str:
    """HTML in which text between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _without_docstring(path: str, symbol: str, node: ast.ClassDef) -> str:
    source = quotes.quote(path, symbol)
    docstring = node.body[0]
    last = (docstring.end_lineno or docstring.lineno) - source.first
    fields = [line for line in source.text.splitlines()[last + 1 :] if not line.lstrip().startswith(("def ", "@"))]
    until = next((i for i, line in enumerate(fields) if line.startswith("        ")), len(fields))
    return "\n".join([source.text.splitlines()[0], *(line for line in fields[:until] if line.strip())])


def _fields(node: ast.ClassDef) -> str:
    """A table of settings: each field with its type, its default and its docstring."""
    rows = []
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or "ClassVar" in ast.unparse(field.annotation):
            continue
        sentence = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        default = f" = {ast.unparse(field.value)}" if field.value else ""
        code = html.escape(f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{default}")
        rows.append(f"<tr><td><code>{code}</code></td><td>{_marked(' '.join(str(sentence).split()))}</td></tr>")
    head = "<thead><tr><th>field</th><th>meaning</th></tr></thead>"
    return f'<table class="flags">{head}<tbody>{"".join(rows)}</tbody></table>' if rows else ""


def _code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"
