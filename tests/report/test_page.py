"""The whole report as users get it: two files, and a page in a real browser."""

import re

import pytest

from metapl.cli import main as cli
from metapl.report import html

from .synthetic_runs import NASTY, line, make, settings

REPORTS = [
    line(step, loss=[2 - step / 100], teacher_labeled_accuracy=[step / 100], feedback=[0.1], baseline=[None])
    for step in range(10, 101, 10)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    runs = place / "runs"
    make(
        runs / NASTY.replace("/", "∕"), settings("uda"), {0: 0.9, 1: 0.8}, lines=REPORTS, evaluations=[(0, 0, 100, 0.9)]
    )
    make(runs / "b", settings("supervised"), {0: 0.5, 1: 0.6}, lines=REPORTS)
    make(runs / "c", settings("mpl"), lines=REPORTS[:3])
    (runs / "d").mkdir()
    (runs / "d" / "config.toml").write_text("not TOML [")
    cli.main(["report", str(runs), "--out", str(place / "out")])
    return place / "out"


@pytest.fixture(scope="module")
def source(made) -> str:
    return (made / "report.html").read_text("utf-8")


def test_the_page_loads_nothing_from_elsewhere(source):
    assert not re.search(r"https?://|@import|url\(|<link|<iframe", source)
    assert source.count("<script") == 1
    assert "alert(1)" in source
    assert " style=" not in source


def test_both_files_have_every_run_with_its_state(made, source):
    text = (made / "report.md").read_text("utf-8")
    for told in (source, text):
        assert "stopped, resumable" in told
        assert "config.toml cannot be read" in told
        assert "2 of 4 finished" in told
        assert "85.00 ± 7.07" in told
        assert "-30.00" in told  # supervised against UDA, which comes first, seed by seed: −40 and −20
    assert "<script>" not in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_a_folder_that_is_not_empty_is_left_alone(made, capsys):
    with pytest.raises(SystemExit):
        cli.main(["report", str(made), "--out", str(made)])
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(("args", "told"), [([], "needs runs"), (["nowhere"], "is not a folder")])
def test_mistakes_give_an_error_and_leave_no_folder(tmp_path, monkeypatch, capsys, args, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["report", *args])
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


@pytest.fixture
def opened(page, made):
    page.open((made / "report.html").as_uri())
    yield page
    assert page.errors == []
    assert page.hosts == {""}
    assert len(page.requests) == 1


def column(page, table: int, number: int) -> list[str]:
    rows = f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows]"
    return page.evaluate(f"{rows}.map((row) => row.cells[{number}].innerText)")


def test_tables_sort_by_keyboard_and_say_so(opened):
    heads = "[...document.querySelectorAll('table')[0].tHead.rows[0].cells]"
    number = opened.evaluate(f"{heads}.findIndex((one) => one.innerText.includes('accuracy'))")
    head = f"document.querySelectorAll('table')[0].tHead.rows[0].cells[{number}]"
    opened.evaluate(f"{head}.querySelector('button').focus()")
    opened.press("Enter")
    assert opened.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert column(opened, 0, number) == ["55.00 ± 7.07", "85.00 ± 7.07", "–", "–"]
    opened.press("Enter")
    assert opened.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    assert column(opened, 0, number) == ["85.00 ± 7.07", "55.00 ± 7.07", "–", "–"]
    assert opened.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


def test_a_link_opens_its_section(opened):
    opened.evaluate("document.querySelector('td a[href=\"#run-2\"]').click()")
    opened.wait_for("document.querySelector('#run-2').open")
    assert not opened.evaluate("document.querySelector('#run-3').open")


def test_names_are_shown_as_text_and_every_drawing_has_one(opened):
    assert any("<script>alert(1)" in name for name in column(opened, 0, 0))
    assert opened.evaluate("document.scripts.length") == 1
    drawings = "[...document.querySelectorAll('figure > svg')]"
    assert opened.evaluate(f"{drawings}.length") > 10
    labelled = "one.getAttribute('role') === 'img' && one.getAttribute('aria-label').length > 20"
    assert opened.evaluate(f"{drawings}.every((one) => {labelled})")
    ids = opened.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_can_be_read(opened, width, scheme):
    opened.set_width(width)
    opened.set_scheme(scheme)
    opened.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert not opened.scrolls_sideways()
    sizes = opened.evaluate(
        "[...document.querySelectorAll('figure > svg .tick')].map((one) => parseFloat(getComputedStyle(one).fontSize)"
        " * one.ownerSVGElement.getBoundingClientRect().width / one.ownerSVGElement.viewBox.baseVal.width)"
    )
    assert min(sizes) > 9.5, "letters of a drawing are too small to be read"
    colours = opened.evaluate(
        "[...document.querySelectorAll('body, .note, .warning, figure > svg text')].map((one) => "
        "[getComputedStyle(one).color, getComputedStyle(one).fill])"
    )
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert contrast(colours[0][0], ground) > 7
    assert all(contrast(colour, ground) > 4.5 for colour, _ in colours)


def contrast(one: str, other: str) -> float:
    """The contrast of two rgb(…) colours, by WCAG."""
    light = []
    for colour in (one, other):
        shares = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_print_opens_all_sections(opened):
    opened.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    opened.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate("document.querySelectorAll('details[open]').length") == 0


def test_the_policy_allows_nothing_else(opened):
    policy = opened.evaluate("document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert html.page("t", []).count(policy.split("'")[3]) == 1
