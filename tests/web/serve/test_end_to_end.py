"""From PNG files on a disk to a prediction in a browser: train, serve, look."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from metapl import config as configs
from metapl.cli import serve as verb
from metapl.runs.start import start_run
from metapl.web.server import Limits, Server

NAMES = ["zero", "<i>one</i>".replace("/", "∕"), 'two "2"', "drei", "fo'ur", "cinco ñ", "six", "七", "8", "nine nine"]
SETTINGS = """
[data]
name = "folder"
path = "PLACE"
[augmentation]
weak = {flip = false, shift_pixels = 0}
[model]
hidden = [32]
activation = "relu"
[[stages]]
steps = 60
labeled_batch = 40
unlabeled_batch = 1
method = {name = "supervised", optimizer = {learning_rate = 0.3}}
"""


def write_digits(place: Path) -> None:
    """Eight labelled pictures of each class and as many to test with."""
    digits = load_digits()
    for label, name in enumerate(NAMES):
        own = digits.images[digits.target == label]
        for part, some in (("labeled", own[:8]), ("test", own[8:16])):
            folder = place / part / name
            folder.mkdir(parents=True)
            for number, picture in enumerate(some):
                Image.fromarray((picture * 15.9).astype(np.uint8)).save(folder / f"{number}.png")


@pytest.fixture
def server(browser, tmp_path):  # the browser first: without one nothing is trained
    write_digits(tmp_path / "digits")
    config = configs.parse(SETTINGS.replace("PLACE", str(tmp_path / "digits")), "test")
    (tmp_path / "run").mkdir()
    start_run(config, 1, "auto", [], tmp_path / "run", Console(file=io.StringIO()))
    server = Server("127.0.0.1", 0, Limits(stop_s=1))
    server.start(verb.prepare(verb.ServeFlags(tmp_path / "run"), lambda _: None))
    yield server
    server.stop()


def test_training_pictures_are_recognised_in_the_browser(page, server, tmp_path):
    page.open(server.address)
    right = 0
    for name in NAMES:
        page.evaluate("document.querySelector('.bars').replaceChildren()")
        page.choose_file("#file", tmp_path / "digits" / "labeled" / name / "3.png")
        page.wait_for("document.querySelectorAll('.bars li').length === 5 && document.querySelector('.examples li')")
        nearest, similarity = page.texts(".examples .name")[0], page.texts(".examples .similarity")[0]
        assert (nearest, similarity) == (name, "similarity 1.000")  # the picture itself
        right += page.texts(".bars .name")[0] == name
    assert right >= 9  # of the ten that it was trained with
    page.evaluate("document.querySelector('#more').click()")
    assert sorted(page.texts(".bars .name")) == sorted(NAMES)
    assert "80 pictures" in page.text("#near-note")
    assert page.errors == []
    assert page.hosts == {server.address.removeprefix("http://").removesuffix("/")}
