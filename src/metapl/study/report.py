"""A study's tables: for the terminal, as Markdown, and as a page with a forest plot."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import jinja2
from rich.table import Table

from metapl.study import forest
from metapl.study.compare import Accuracies, ArmResult, Comparison, arm_results, comparisons
from metapl.study.settings import Part, Study
from metapl.system.disk import write_atomically
from metapl.system.escape import markdown as escape_markdown

MARKDOWN, PAGE = "study.md", "study.html"
PARTS: dict[Part, str] = {"test": "test", "val": "validation"}


def write(study: Study, out: Path, accuracies: Accuracies, part: Part, command: str, missing: int) -> list[Path]:
    """Write the Markdown and the page."""
    results, pairs = arm_results(accuracies), comparisons(study, accuracies)
    remark = f"{missing} of {len(study.runs())} runs are missing." if missing else ""
    write_atomically(out / MARKDOWN, markdown(study, results, pairs, PARTS[part], (command, remark)).encode())
    write_atomically(out / PAGE, page(study, results, pairs, PARTS[part], (command, remark)).encode())
    return [out / MARKDOWN, out / PAGE]


def table(study: Study, accuracies: Accuracies, part: Part) -> Table:
    """The accuracies, for a terminal."""
    shown = Table("case", "arm", title=study.title)
    shown.add_column(f"{PARTS[part]} accuracy (%)", justify="right")
    shown.add_column("the paper's", justify="right")
    for one in arm_results(accuracies):
        shown.add_row(_case(study, one.case), _arm(study, one.arm), accuracy(one), paper(study, one.arm))
    return shown


def difference_table(study: Study, accuracies: Accuracies) -> Table:
    """The paired differences, for a terminal."""
    shown = Table("comparison")
    for title in ("difference (points)", "ahead in", "p", ""):
        shown.add_column(title, justify="right")
    for one in comparisons(study, accuracies):
        shown.add_row(forest.label(study, one), *_difference_cells(one))
    return shown


def markdown(
    study: Study, results: Sequence[ArmResult], pairs: Sequence[Comparison], part: str, notes: tuple[str, str]
) -> str:
    """The study as a text that a README or a paper's appendix can take."""
    command, remark = notes
    lines = [f"# {escape_markdown(study.title)}", "", escape_markdown(study.question), "", f"Command: `{command}`", ""]
    if remark:
        lines += [remark, ""]
    seeds = f"{study.seeds} seeds from {study.first_seed} on."
    lines += [f"{seeds} {part.capitalize()} accuracy of the final weights in percent, mean ± std."]
    lines += ["", "| case | arm | accuracy | the paper's |", "|---|---|---|---|"]
    for one in results:
        names = escape_markdown(_case(study, one.case)), escape_markdown(_arm(study, one.arm))
        lines.append(f"| {names[0]} | {names[1]} | {accuracy(one)} | {paper(study, one.arm)} |")
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


def page(
    study: Study, results: Sequence[ArmResult], pairs: Sequence[Comparison], part: str, notes: tuple[str, str]
) -> str:
    """The study as one HTML page that needs nothing else."""
    command, remark = notes
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(resources.files("metapl.study").joinpath("page.html").read_text("utf-8"))
    return template.render(
        study=study,
        part=part,
        command=command,
        remark=remark,
        rows=[(_case(study, r.case), _arm(study, r.arm), accuracy(r), paper(study, r.arm)) for r in results],
        pairs=[(forest.label(study, pair), *_difference_cells(pair)) for pair in pairs],
        plot=forest.draw(study, pairs),
    )


def accuracy(one: ArmResult) -> str:
    """Mean ± std, or the mean alone for one seed."""
    return f"{one.mean:.2f} ± {one.std:.2f}" if one.seeds > 1 else f"{one.mean:.2f}"


def paper(study: Study, arm: str) -> str:
    """The paper's figure, or a dash."""
    mean, std = study.arms[arm].paper, study.arms[arm].paper_std
    if mean is None:
        return "–"
    return f"{mean:.2f} ± {std:.2f}" if std is not None else f"{mean:.2f}"


def _difference_cells(one: Comparison) -> tuple[str, str, str, str]:
    d = one.difference
    interval = "" if d.low is None or d.high is None else f" [{d.low:+.2f}, {d.high:+.2f}]"
    p = one.corrected if one.corrected is not None else one.p
    return f"{d.mean:+.2f}{interval}", f"{d.better} of {d.n}", "–" if p is None else f"{p:.2g}", one.kind


def _case(study: Study, name: str) -> str:
    return study.cases[name].title or name


def _arm(study: Study, name: str) -> str:
    return study.arms[name].title or name
