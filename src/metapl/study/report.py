"""A study's tables: for the terminal, as Markdown, and as a page with a forest plot and the study's own figure."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import jinja2
from rich.table import Table

from metapl.study import figure, forest
from metapl.study.compare import Accuracies, ArmResult, Comparison, arm_results, comparisons
from metapl.study.settings import Part, Score, Study
from metapl.system.disk import write_atomically
from metapl.system.escape import markdown as escape_markdown

MARKDOWN, PAGE = "study.md", "study.html"
PARTS: dict[Part, str] = {"test": "test", "val": "validation"}
TITLES: dict[Score, str] = {"accuracy": "accuracy", "top5_accuracy": "top-5 accuracy", "real_accuracy": "ReaL"}


class Tables(NamedTuple):
    """What a study has measured so far."""

    scores: Mapping[Score, Accuracies]
    part: Part
    curves: figure.Curves = figure.NO_CURVES
    missing: int = 0  # runs

    @property
    def accuracies(self) -> Accuracies:
        """The score that is compared."""
        return next(iter(self.scores.values()))


def write(study: Study, out: Path, tables: Tables, command: str) -> list[Path]:
    """Write the Markdown and the page."""
    pairs = comparisons(study, tables.accuracies)
    remark = f"{tables.missing} of {len(study.runs())} runs are missing." if tables.missing else ""
    write_atomically(out / MARKDOWN, markdown(study, tables, pairs, (command, remark)).encode())
    write_atomically(out / PAGE, page(study, tables, pairs, (command, remark)).encode())
    return [out / MARKDOWN, out / PAGE]


def table(study: Study, tables: Tables) -> Table:
    """The accuracies, for a terminal."""
    shown = Table("case", "arm", title=study.title)
    for title in _titles(tables):
        shown.add_column(title, justify="right")
    for row in rows(study, tables):
        shown.add_row(*row)
    return shown


def difference_table(study: Study, accuracies: Accuracies) -> Table:
    """The paired differences, for a terminal."""
    shown = Table("comparison")
    for title in ("difference (points)", "ahead in", "p", ""):
        shown.add_column(title, justify="right")
    for one in comparisons(study, accuracies):
        shown.add_row(forest.label(study, one), *_difference_cells(one))
    return shown


def rows(study: Study, tables: Tables) -> list[list[str]]:
    """The lines of the table: case, arm, then each score and the paper's."""
    results = {score: {(r.case, r.arm): r for r in arm_results(found)} for score, found in tables.scores.items()}
    lines = []
    for case, arm in tables.accuracies:
        cells = [study.cases[case].title or case, study.arms[arm].title or arm]
        for score, found in results.items():
            cells += [accuracy(found[case, arm]) if (case, arm) in found else "–", paper(study, case, arm, score)]
        lines.append(cells)
    return lines


def markdown(study: Study, tables: Tables, pairs: Sequence[Comparison], notes: tuple[str, str]) -> str:
    """The study as a text that a README or a paper's appendix can take."""
    command, remark = notes
    lines = [f"# {escape_markdown(study.title)}", "", escape_markdown(study.question), "", f"Command: `{command}`", ""]
    if remark:
        lines += [remark, ""]
    lines += [f"{_seeds(study)} {PARTS[tables.part].capitalize()} accuracy in percent, mean ± std."]
    titles = ["case", "arm", *_titles(tables)]
    lines += ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    lines += [f"| {' | '.join(map(escape_markdown, row))} |" for row in rows(study, tables)]
    if pairs:
        lines += [
            "",
            "Paired differences in points, seed by seed, with 95 % intervals; p of confirmatory comparisons is ",
        ]
        lines[-1] += "corrected for their number (Holm)."
        lines += ["", "| comparison | difference | ahead in | p | kind |", "|---|---|---|---|---|"]
        for pair in pairs:
            lines.append(f"| {escape_markdown(forest.label(study, pair))} | {' | '.join(_difference_cells(pair))} |")
    return "\n".join(lines) + "\n"


def page(study: Study, tables: Tables, pairs: Sequence[Comparison], notes: tuple[str, str]) -> str:
    """The study as one HTML page that needs nothing else."""
    command, remark = notes
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(resources.files("metapl.study").joinpath("page.html").read_text("utf-8"))
    return template.render(
        study=study,
        seeds=_seeds(study),
        part=PARTS[tables.part],
        command=command,
        remark=remark,
        titles=_titles(tables),
        rows=rows(study, tables),
        pairs=[(forest.label(study, pair), *_difference_cells(pair)) for pair in pairs],
        plot=forest.draw(study, pairs),
        figure=figure.draw(study, tables.accuracies, tables.curves),
    )


def accuracy(one: ArmResult) -> str:
    """Mean ± std, or the mean alone for one seed."""
    return f"{one.mean:.2f} ± {one.std:.2f}" if one.seeds > 1 else f"{one.mean:.2f}"


def paper(study: Study, case: str, arm: str, score: Score = "accuracy") -> str:
    """The paper's figure, or a dash."""
    scores = (study.arms[arm].paper or {}).get(case)
    mean = None if scores is None else getattr(scores, score)
    if scores is None or mean is None:
        return "–"
    return f"{mean:.2f} ± {scores.std:.2f}" if score == "accuracy" and scores.std is not None else f"{mean:.2f}"


def _titles(tables: Tables) -> list[str]:
    return [title for score in tables.scores for title in (f"{TITLES[score]} (%)", "the paper's")]


def _seeds(study: Study) -> str:
    numbers = sorted({study.seeds_of(case) for case in study.cases})
    count = " or ".join(f"{number}" for number in numbers)
    return f"{count} {'seed' if numbers == [1] else 'seeds'} from {study.first_seed} on."


def _difference_cells(one: Comparison) -> tuple[str, str, str, str]:
    d = one.difference
    interval = "" if d.low is None or d.high is None else f" [{d.low:+.2f}, {d.high:+.2f}]"
    p = one.corrected if one.corrected is not None else one.p
    return f"{d.mean:+.2f}{interval}", f"{d.better} of {d.n}", "–" if p is None else f"{p:.2g}", one.kind
