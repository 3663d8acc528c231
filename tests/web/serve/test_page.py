"""The page in a real browser: what a person sees, and that it talks to its own server only."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from metapl.evaluate import predictor as predictors
from metapl.web.serve.examples import collect
from metapl.web.serve.network import ServedNetwork, facts
from metapl.web.server import Limits, Server
from tests import small_run

ANSWERED = "document.querySelectorAll('.bars li').length"
FAILED = "!document.querySelector('#error').hidden"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("small")
    small_run.make(place)
    Image.new("RGB", (1600, 300), "teal").save(place / "wide.jpg")
    (place / "not a picture.png").write_text("<svg onload=alert(1)>")
    return place


@pytest.fixture(scope="module")
def served(place) -> ServedNetwork:
    run = place / "run"
    predictor = predictors.load(run)
    served = ServedNetwork(predictor, facts("mine", run, predictor), collect(predictor, run, [], 1000), "")
    served.warm_up()
    return served


@pytest.fixture(scope="module")
def server(served, browser) -> Iterator[Server]:  # the browser first: without one there is nothing to serve
    server = Server("127.0.0.1", 0, Limits(max_bytes=100_000, stop_s=1))
    server.start(served)
    yield server
    server.stop()


@pytest.fixture
def opened(page, server):
    page.open(server.address)
    page.wait_for("document.querySelector('#about').textContent.includes('mine')")
    yield page
    assert page.hosts == {f"127.0.0.1:{server.port}"}


def test_a_picture_is_shown_with_its_classes_and_its_neighbours(opened, place, served):
    picture = place / "data" / "0-1.png"
    expected = served.predict(picture.read_bytes())
    opened.choose_file("#file", picture)
    opened.wait_for(ANSWERED)
    names = [row["name"] for row in expected["classes"]]
    assert set(names) == set(small_run.CLASSES)
    assert opened.texts(".bars .name") == names  # as text: the script in a class name does not run
    shares = [float(text.strip("<> %")) for text in opened.texts(".bars .share")]
    assert shares == pytest.approx([100 * row["probability"] for row in expected["classes"]], abs=0.11)
    opened.wait_for("document.getAnimations().length === 0")
    full = opened.evaluate("document.querySelector('.track').clientWidth")
    widths = opened.evaluate("[...document.querySelectorAll('.bar')].map((bar) => bar.getBoundingClientRect().width)")
    assert widths == pytest.approx([full * row["probability"] for row in expected["classes"]], abs=1)
    assert opened.texts(".examples .name")[0] == small_run.CLASSES[0]
    opened.wait_for("[...document.querySelectorAll('.examples img')].every((image) => image.naturalWidth === 8)")
    assert opened.evaluate("document.querySelector('#preview').naturalWidth") == 16
    assert "test accuracy 81.3 %" in opened.text("#about")
    assert opened.evaluate("document.scripts.length") == 1
    assert opened.errors == []


def test_a_bad_file_gives_an_error_and_a_good_one_then_a_prediction(opened, place):
    opened.choose_file("#file", place / "not a picture.png")
    opened.wait_for(FAILED)
    assert opened.text("#error").startswith("The picture: not a picture of a known kind")
    assert opened.evaluate("document.querySelector('#preview').hidden")
    assert opened.text("#status") == "No prediction."
    assert all("422" in error for error in opened.errors)  # Chromium notes every refused request
    opened.choose_file("#file", place / "wide.jpg")
    opened.wait_for(ANSWERED)
    assert opened.text("#error") == ""


def test_a_picture_that_is_too_large_is_not_sent(opened, place):
    large = place / "large.bmp"
    Image.new("RGB", (300, 300)).save(large)
    opened.choose_file("#file", large)
    opened.wait_for(FAILED)
    assert opened.text("#error") == "The picture has 0.3 MB; the limit is 0.1 MB."
    assert not any("predict" in url for url in opened.requests)
    assert opened.errors == []


def test_pictures_are_dropped_and_pasted_anywhere(opened, place):
    text = base64.b64encode((place / "wide.jpg").read_bytes()).decode()
    opened.evaluate(
        f"""(() => {{
            const bytes = Uint8Array.from(atob("{text}"), (char) => char.charCodeAt(0));
            window.carried = new DataTransfer();
            carried.items.add(new File([bytes], "wide.jpg", {{ type: "image/jpeg" }}));
            document.body.dispatchEvent(new DragEvent("drop", {{ dataTransfer: carried, bubbles: true }}));
        }})()"""
    )
    opened.wait_for(ANSWERED)
    opened.evaluate("document.querySelector('.bars').replaceChildren()")
    opened.evaluate(
        "document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: carried, bubbles: true })) && 0"
    )
    opened.wait_for(ANSWERED)
    empty = "new ClipboardEvent('paste', { clipboardData: new DataTransfer(), bubbles: true })"
    opened.evaluate(f"document.body.dispatchEvent({empty}) && 0")
    assert opened.text("#error") == "What you pasted is not a picture."
    assert opened.errors == []


def test_every_control_can_be_reached_by_keyboard_and_has_a_name(opened):
    opened.press("Tab")
    assert opened.evaluate("document.activeElement.id") == "file"
    assert opened.evaluate("getComputedStyle(document.querySelector('#drop')).outlineStyle") == "solid"
    opened.press("Tab")
    assert opened.evaluate("document.activeElement.tagName") == "SUMMARY"
    opened.press("Enter")
    opened.wait_for("document.querySelector('details').open")
    assert "/api/predict" in opened.text("#curl")
    assert opened.evaluate("document.querySelector('#file').labels[0].innerText").startswith("Choose a picture")
    assert opened.evaluate("document.querySelector('#error').getAttribute('role')") == "alert"
    assert opened.evaluate("document.documentElement.lang") == "en"


CONTRAST = """(() => {
    const light = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const color = getComputedStyle(element).backgroundColor;
            if (!color.startsWith("rgba(0, 0, 0, 0")) return color;
        }
    };
    return Math.min(...[...document.querySelectorAll("h1, h2, p, strong, .name, .share, .similarity, button, summary")]
        .filter((element) => element.offsetParent)
        .map((element) => [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a))
        .map(([more, less]) => (more + 0.05) / (less + 0.05)));
})()"""


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_it_fits_every_window_and_can_be_read(page, server, place, width, scheme):
    page.set_width(width)
    page.set_scheme(scheme)
    page.open(server.address)
    page.choose_file("#file", place / "wide.jpg")
    page.wait_for(ANSWERED)
    page.evaluate("document.querySelector('details').open = true")
    assert not page.scrolls_sideways()
    assert page.evaluate("innerWidth") == width
    page.choose_file("#file", place / "not a picture.png")
    page.wait_for(FAILED)
    assert page.evaluate(CONTRAST) >= 4.5  # WCAG's limit for text
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(246, 247, 249)"
    assert dark == (scheme == "dark")


def test_another_sites_page_gets_nothing(page, server, place, monkeypatch):
    """A page from a file, without an origin, gets no prediction and no picture, and the network does not run."""
    asked: list[bytes] = []
    monkeypatch.setattr(server.service, "predict", asked.append)
    other = place / "other.html"
    other.write_text("<title>other</title>")
    page.open(other.as_uri())
    for mode, kind in (("no-cors", "text/plain"), ("cors", "image/png"), ("cors", "application/octet-stream")):
        words = f"method: 'POST', mode: '{mode}', headers: {{'Content-Type': '{kind}'}}, body: 'x'"
        sent = f"fetch('{server.address}api/predict', {{{words}}}).then((reply) => reply.type, () => 'refused')"
        assert page.evaluate(sent) in ("opaque", "refused")
    shown = (
        "new Promise((done) => { const image = new Image(); image.onload = () => done(true); "
        f"image.onerror = () => done(false); image.src = '{server.address}api/examples/0.png'; }})"
    )
    assert page.evaluate(shown) is False
    assert asked == []
