"""Numbers that README and the proof repeat are equal to those of the pages that they come from."""

import re

import pytest

from .pages import ROOT

DOCS = ROOT / "docs"

# README's name of a row -> its name in docs/two_moons.md and in docs/results.md
ROWS = {
    "Supervised": ("Supervised", "Supervised"),
    "Supervised, label smoothing": (None, "Supervised, label smoothing"),
    "Pseudo Labels": ("Pseudo Labels", "Pseudo Labels"),
    "UDA": ("UDA", "UDA"),
    "FixMatch": (None, "FixMatch"),
    "MPL, supervised teacher, no feedback": ("MPL, no feedback", "MPL, supervised teacher, no feedback"),
    "MPL, supervised teacher": ("MPL", "MPL, supervised teacher"),
    "MPL, UDA teacher, no feedback": ("MPL+UDA, no feedback", "MPL, UDA teacher, no feedback"),
    "MPL, UDA teacher": ("MPL+UDA", "MPL, UDA teacher"),
    "MPL, too sharp UDA teacher, no feedback": ("MPL+UDA too sharp, no feedback", None),
    "MPL, too sharp UDA teacher": ("MPL+UDA too sharp", None),
}


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The first table after a heading: the first cell of each row -> the others."""
    lines = text.split(heading, 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return {name: cells for name, *cells in rows[2:]}


def test_the_readmes_table_is_the_docs():
    measured = table((ROOT / "README.md").read_text("utf-8"), "## Measured here")
    moons = table((DOCS / "two_moons.md").read_text("utf-8"), "## The comparison")
    results = (DOCS / "results.md").read_text("utf-8")
    seeds, splits = table(results, "### One split, ten seeds"), table(results, "### Ten splits, a seed each")
    assert set(measured) == set(ROWS)
    for name, cells in measured.items():
        moon, digit = ROWS[name]
        expected = [
            moons[moon][1].removesuffix(" %") if moon else "",
            seeds[digit][0] if digit else "",
            splits[digit][0] if digit in splits else "",
        ]
        assert cells == expected, name


PAGES = (
    "results.md",
    "two_moons.md",
    "feedback.md",
    "feedback_trials.md",
    "features.md",
    "own_pictures.md",
    "fit_measurements.md",
)


@pytest.mark.parametrize("page", ["README.md", "docs/proof.md"])
def test_intervals_are_those_of_the_docs(page):
    """Each `+1.0 [+0.3, +1.7]` is on a page with results, rounded to the same digits."""
    known = [tuple(map(number, found)) for name in PAGES for found in intervals(DOCS / name)]
    told = intervals(ROOT / page)
    assert len(told) >= 3
    for found in told:
        digits = max(len(text.partition(".")[2]) for text in found)
        assert any(
            all(abs(number(a) - b) <= 0.51 * 10**-digits for a, b in zip(found, k, strict=True)) for k in known
        ), found


def intervals(path):
    return re.findall(r"([+−][\d.]+) \[([+−][\d.]+), ([+−][\d.]+)\]", path.read_text("utf-8"))


def number(text: str) -> float:
    return float(text.replace("−", "-"))
