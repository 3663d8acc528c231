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
DIFFERENCES = ("accuracy (%)", "difference (points)", "ahead in", "p", "kind")
SIGNIFICANT = 0.05


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
    titles, lines = accuracy_table(study, tables)
    shown = Table(titles[0], title=study.title)
    for title in titles[1:]:
        shown.add_column(title, justify="right")
    for row in lines:
        shown.add_row(*row)
    return shown


def difference_table(study: Study, accuracies: Accuracies) -> Table:
    """The paired differences, for a terminal."""
    shown = Table("comparison")
    for title in DIFFERENCES:
        shown.add_column(title, justify="right")
    for one in comparisons(study, accuracies):
        shown.add_row(forest.label(study, one), *_difference_cells(one))
    return shown


def answers(study: Study, pairs: Sequence[Comparison]) -> list[tuple[str, str, str]]:
    """What the confirmatory comparisons say: what was compared, a verdict in words, and the difference."""
    return [
        (forest.label(study, one), verdict(one), f"{forest.numbers(one)} points{_p_in_words(one)}")
        for one in pairs
        if one.pair.kind == "confirmatory"
    ]


def verdict(one: Comparison) -> str:
    """Whether a confirmatory difference can be told from chance."""
    if one.corrected is None or one.corrected >= SIGNIFICANT:
        return "no difference shown"
    return "better" if one.difference.mean > 0 else "worse"


def _p_in_words(one: Comparison) -> str:
    return "" if one.corrected is None else f", p {one.corrected:.2g}"


def accuracy_table(study: Study, tables: Tables) -> tuple[list[str], list[list[str]]]:
    """Titles and lines: arms by cases; case by case if there are numbers of the paper, or several scores."""
    if len(tables.scores) > 1 or any(arm.paper for arm in study.arms.values()):
        return ["case", "arm", *_titles(tables)], rows(study, tables)
    results = {(one.case, one.arm): accuracy(one) for one in arm_results(tables.accuracies)}
    cases = [case for case in study.cases if any(case == key[0] for key in results)]
    arms = [arm for arm in study.arms if any(arm == key[1] for key in results)]
    lines = [[study.arms[arm].title or arm, *(results.get((case, arm), "–") for case in cases)] for arm in arms]
    return ["arm", *(study.cases[case].title or case for case in cases)], lines


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
    for what, words, difference in answers(study, pairs):
        lines.append(f"- {escape_markdown(what)}: **{words}**, {difference}")
    lines += ["", f"{_seeds(study)} {PARTS[tables.part].capitalize()} accuracy in percent, mean ± std.", ""]
    titles, cells = accuracy_table(study, tables)
    lines += _markdown_table(titles, [[cell[0], *map(escape_markdown, cell[1:])] for cell in cells])
    if pairs:
        lines += [
            "",
            "Paired differences in points with 95 % intervals; p of confirmatory comparisons is corrected for their",
        ]
        lines[-1] += " number (Holm)."
        lines += ["", *_markdown_table(["comparison", *DIFFERENCES], _difference_rows(study, pairs))]
    return "\n".join(lines) + "\n"


def page(study: Study, tables: Tables, pairs: Sequence[Comparison], notes: tuple[str, str]) -> str:
    """The study as one HTML page that needs nothing else."""
    command, remark = notes
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(resources.files("metapl.study").joinpath("page.html").read_text("utf-8"))
    titles, lines = accuracy_table(study, tables)
    shown = {arm for _, arm in tables.accuracies}
    return template.render(
        study=study,
        seeds=_seeds(study),
        part=PARTS[tables.part],
        command=command,
        remark=remark,
        answers=answers(study, pairs),
        titles=titles,
        rows=lines,
        words=2 if titles[0] == "case" else 1,
        abouts=[(arm.title or name, arm.about) for name, arm in study.arms.items() if arm.about and name in shown],
        difference_titles=DIFFERENCES,
        pairs=_difference_rows(study, pairs),
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


def _markdown_table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(map(escape_markdown, titles))} |",
        "|---" * len(titles) + "|",
        *(f"| {' | '.join((escape_markdown(line[0]), *line[1:]))} |" for line in lines),
    ]


def _difference_rows(study: Study, pairs: Sequence[Comparison]) -> list[list[str]]:
    return [[forest.label(study, one), *_difference_cells(one)] for one in pairs]


def _difference_cells(one: Comparison) -> tuple[str, str, str, str, str]:
    p = one.corrected if one.corrected is not None else one.p
    before, after = one.means
    ahead = f"{one.difference.better} of {one.difference.n}"
    return (f"{before:.2f} → {after:.2f}", forest.numbers(one), ahead, "–" if p is None else f"{p:.2g}", one.pair.kind)
