"""The TwoMoon page in a real browser: the slider moves the regions, and nothing leaves the page."""

import re

import numpy as np
import pytest
from PIL import Image

from metapl.report.moons_regions import height, outlines

from .synthetic_moons import STEPS, TITLES, film, page, shown
from .test_page import column, contrast

LAST = len(STEPS) - 1


@pytest.fixture(scope="module")
def source() -> str:
    return page()


@pytest.fixture
def opened(page, source, tmp_path):
    path = tmp_path / "two_moons.html"
    path.write_text(source, "utf-8")
    page.set_width(1280)
    page.open(path.as_uri())
    yield page
    assert page.errors == []
    assert page.hosts == {""}
    assert page.requests == [path.as_uri()]


def regions(opened):
    return opened.evaluate(
        "[...document.querySelectorAll('.panels [class^=shade][d]')].map((one) => one.getAttribute('d'))"
    )


def expected(source, frame: int, which: int = 0):
    return [path for method in film(source)["methods"] for path in method["paths"][frame][which]]


def test_the_page_loads_nothing_from_elsewhere(source):
    assert not re.search(r"https?://|@import|url\(|<link|<iframe", source)
    assert " style=" not in source
    assert "<script>alert(1)" not in source.split('<script type="application/json"')[0]


def test_without_a_script_the_end_of_the_training_is_shown(source):
    shapes = re.findall(r'<path class="shade\d" d="([^"]*)"/>', source)
    assert shapes == expected(source, LAST)
    assert len(set(shapes)) == len(shapes)
    assert re.search(r'class="player"[^>]* hidden', source)
    assert "<noscript>" in source


def test_the_script_s_data_are_the_frames(source):
    told, wanted = film(source), shown()
    assert (told["steps"], told["seeds"]) == (STEPS, [1000, 1001])
    found = [method["accuracies"] for method in told["methods"]]
    assert np.array(found) == pytest.approx(100 * wanted.accuracies)
    flat = [paths for method in told["methods"] for frame in method["paths"] for paths in frame]
    grids = wanted.margins.reshape(-1, *wanted.margins.shape[3:])
    assert flat == outlines(grids, height(wanted.box))
    assert len(set(map(tuple, flat))) == len(flat) == len(TITLES) * len(STEPS) * 2


def test_the_slider_moves_regions_words_and_numbers(opened, source):
    assert opened.text(".now") == "step 8,000 of 8,000"
    assert regions(opened) == expected(source, LAST)
    opened.evaluate("document.querySelector('.slider').focus()")
    opened.press("ArrowLeft")
    assert opened.text(".now") == "step 1,000 of 8,000"
    assert opened.evaluate("document.querySelector('.slider').getAttribute('aria-valuetext')") == "step 1,000 of 8,000"
    assert regions(opened) == expected(source, LAST - 1)
    assert opened.texts(".accuracy") == ["58.00 %", "74.00 %", "90.00 %"]
    opened.press("Home")
    assert opened.text(".now") == "step 1 of 8,000"
    label = opened.evaluate("document.querySelector('.panels svg').getAttribute('aria-label')")
    assert label == "Supervised, data set 1000, at step 1: 50.00 % of the points right"
    even = opened.evaluate("document.querySelector('.panels .even').getAttribute('d')")
    assert even == expected(source, 0)[2]


def test_only_a_success_is_marked(opened):
    reached = "[...document.querySelectorAll('.accuracy')].map((one) => one.classList.contains('reached'))"
    assert opened.texts(".accuracy")[1:] == ["99.00 %", "98.95 %"]
    assert opened.evaluate(reached) == [False, True, False]
    opened.evaluate("document.querySelector('.slider').focus()")
    opened.press("Home")
    assert opened.evaluate(reached) == [False] * 3
    opened.press("End")
    assert opened.evaluate(reached) == [False, True, False]


def test_it_plays_from_the_start_to_the_end_and_pauses(opened):
    opened.evaluate("document.querySelector('.play').focus()")
    opened.press("Enter")
    assert opened.text(".play") == "Pause"
    opened.wait_for("document.querySelector('.now').innerText === 'step 50 of 8,000'")
    opened.wait_for("document.querySelector('.play').innerText === 'Play'")
    assert opened.text(".now") == "step 8,000 of 8,000"
    opened.press("Enter")
    opened.press("Enter")
    assert opened.text(".play") == "Play"
    assert opened.text(".now") != "step 8,000 of 8,000"


@pytest.mark.parametrize("less_motion", [False, True])
def test_it_plays_slowly_for_reduced_motion(opened, less_motion):
    opened.set_scheme("light", less_motion=less_motion)
    opened.evaluate("window.setInterval = (_, milliseconds) => { window.every = milliseconds; return 1; }")
    opened.evaluate("document.querySelector('.play').click()")
    assert opened.evaluate("window.every") == (1500 if less_motion else 250)


def test_another_data_set_has_its_own_points_and_regions(opened, source):
    marks = "[...document.querySelectorAll('#marks path')].map((one) => one.getAttribute('d'))"
    assert opened.evaluate(marks) == film(source)["marks"][0]
    opened.evaluate(
        "(() => { const one = document.querySelector('.which'); one.value = 1; "
        "one.dispatchEvent(new Event('change')); })()"
    )
    assert opened.evaluate(marks) == film(source)["marks"][1]
    assert regions(opened) == expected(source, LAST, 1)


def test_print_shows_the_end_of_the_training(opened, source):
    opened.evaluate("document.querySelector('.slider').focus()")
    opened.press("Home")
    opened.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert regions(opened) == expected(source, LAST)
    opened.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert regions(opened) == expected(source, 0)


def test_the_tables_sort_and_have_every_method(opened):
    assert set(column(opened, 0, 0)) == set(TITLES.values())
    head = "document.querySelectorAll('table')[0].tHead.rows[0].cells[1]"
    opened.evaluate(f"{head}.querySelector('button').focus()")
    opened.press("Enter")
    assert opened.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    rates = [int(rate) for rate in column(opened, 0, 1)]
    assert rates == sorted(rates)
    assert len(set(rates)) > 1
    assert len(column(opened, 1, 0)) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_can_be_read(opened, width, scheme):
    opened.set_width(width)
    opened.set_scheme(scheme)
    assert not opened.scrolls_sideways()
    assert opened.evaluate("document.querySelector('.panels svg').getBoundingClientRect().width") > 150
    colour = "(kind) => getComputedStyle(document.querySelector('.moons ' + kind))"
    shades = [opened.evaluate(f"({colour})('.shade{i}').fill") for i in range(6)]
    assert len(set(shades)) == 6
    for mark, own in (("moon0", shades[:3]), ("moon1", shades[3:])):
        fill = opened.evaluate(f"({colour})('#marks .{mark}').fill")
        assert all(contrast(fill, shade) > 3 for shade in own), "points must be seen on their own side"
    line = opened.evaluate(f"({colour})('.panels .even').stroke")
    assert all(contrast(line, shade) > 4.5 for shade in shades)


def test_the_points_have_their_colours_in_the_panels(opened, tmp_path):
    """Panels show copies of the points; only a screenshot shows whether their style is applied."""
    opened.screenshot(tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as picture:
        found = {colour: count for count, colour in picture.convert("RGB").getcolors(10**7)}
    for mark in ("moon0", "moon1"):
        fill = opened.evaluate(f"getComputedStyle(document.querySelector('#marks .{mark}')).fill")
        assert found.get(tuple(map(int, re.findall(r"\d+", fill))), 0) > 1000
