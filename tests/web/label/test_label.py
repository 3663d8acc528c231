"""Labelling in the browser: the file only grows, the last decision counts, and only this page can write."""

import errno
import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from metapl.cli import main as cli
from metapl.fit import label_file
from metapl.fit.label_file import Decision
from metapl.schema import ConfigError
from metapl.web.label import queue
from metapl.web.label.routes import LABEL
from metapl.web.server import Limits, Server
from tests.web.label import fake_fit

CAT, NONE, UNDO = Decision("cat", "label"), Decision("", "none_of_these"), Decision("", "undo")


def test_the_file_only_grows_and_the_last_decision_counts(tmp_path):
    path, before = tmp_path / "labels.csv", b""
    for picture, decision in [("a", CAT), ("b,\n", NONE), ("a", Decision("dog", "label")), ("b,\n", UNDO), ("c", NONE)]:
        label_file.add(path, picture, decision)
        assert path.read_bytes().startswith(before)
        before = path.read_bytes()
    assert label_file.read(path) == {"a": Decision("dog", "label"), "c": NONE}


def test_a_name_that_is_no_text_is_kept_as_it_is(tmp_path):
    path, name = tmp_path / "labels.csv", os.fsdecode(b"caf\xe9.png")
    label_file.add(path, name, CAT)
    assert b"caf\xe9.png" in path.read_bytes()
    assert label_file.read(path) == {name: CAT}


def test_a_line_that_was_cut_off_does_not_swallow_the_next_one(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("path,label,decision\r\na,cat,label")
    label_file.add(path, "b", NONE)
    assert label_file.read(path) == {"a": CAT, "b": NONE}


@pytest.mark.parametrize("rest", ["a", "a,cat", "a,cat,lab", "a,cat,und"])
def test_half_a_line_that_a_crash_has_left_does_not_count(tmp_path, rest):
    path = tmp_path / "labels.csv"
    path.write_text(f"path,label,decision\r\nb,,none_of_these\r\n{rest}")
    assert label_file.read(path) == {"b": NONE}
    label_file.add(path, "a", CAT)
    assert label_file.read(path) == {"a": CAT, "b": NONE}
    path.write_text("path,lab")
    assert label_file.read(path) == {}
    label_file.add(path, "a", CAT)
    assert label_file.read(path) == {"a": CAT}


def test_another_file_is_not_cut(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("precious,words\nwithout an end")
    label_file.add(path, "a", CAT)
    assert path.read_text().startswith("precious,words\nwithout an end")


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "labels.csv"
    label_file.add(path, "a", CAT)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        label_file.add(path, "b", CAT)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["path,label\na,cat\n", "path,label,decision\na,cat,maybe\n", "path,label,decision\n,cat,label\n"]
)
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(ConfigError, match="line 2: expected path,label,decision"):
        label_file.read(tmp_path / "labels.csv")


@pytest.fixture
def fit(tmp_path):
    return fake_fit.make(tmp_path)


def test_pictures_come_in_the_fits_order_and_decisions_are_kept(fit):
    asked = queue.load(fit, None)
    assert [one.path.rpartition("/")[2] for one in asked.asked] == ["5.png", "3.png", "7.png"]
    asked.decide(1, CAT)
    asked.decide(0, NONE)
    asked.decide(0, UNDO)
    decisions = [one["decision"] for one in queue.load(fit, None).state()["pictures"]]
    assert decisions == [None, CAT._asdict(), None]
    assert asked.png(0)[:4] == b"\x89PNG"
    assert asked.png(2) is None, "it cannot be read"
    assert asked.png(3) is None, "there is no such picture"
    for number, decision in ((3, CAT), (0, Decision("horse", "label")), (0, Decision("cat", "undo"))):
        with pytest.raises(ConfigError):
            asked.decide(number, decision)


def test_a_folder_that_is_no_fit_is_named(tmp_path, fit, capsys):
    for folder, words in ((tmp_path, "is not the folder of a metapl fit"), (fit, "has no verdict.json yet")):
        (fit / "verdict.json").unlink(missing_ok=True)
        with pytest.raises(SystemExit) as end:
            cli.main(["label", str(folder)])
        assert end.value.code == 2
        assert words in capsys.readouterr().err


def test_a_damaged_file_of_labels_is_refused_before_there_is_a_page(fit, capsys):
    (fit / "labels.csv").write_text("path,label,decision\na,cat,maybe\n")
    with pytest.raises(SystemExit) as end:
        cli.main(["label", str(fit)])
    assert end.value.code == 2
    assert "line 2: expected path,label,decision" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_refused_before_there_is_a_page(fit, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["label", str(fit), "--file", str(fit / "nowhere" / "labels.csv")])
    assert end.value.code == 2
    assert "nowhere/labels.csv cannot be written; choose another place" in capsys.readouterr().err


@pytest.fixture
def server(fit) -> Iterator[Server]:
    server = Server("127.0.0.1", 0, Limits(stop_s=1), LABEL)
    server.start(queue.load(fit, None))
    yield server
    server.stop()


def post(server: Server, path: str, body: bytes, **headers: str) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body, given)
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def test_only_whole_decisions_of_this_page_are_written(server, fit):
    good = json.dumps(CAT._asdict()).encode()
    path = "/api/pictures/0"
    refused = [
        post(server, path, good, Origin="http://example.com"),
        post(server, path, good, Content_Type="text/plain"),
        post(server, path, b"{"),
        post(server, path, b'{"label": 3, "choice": "label"}'),
        post(server, path, json.dumps({"label": "horse", "choice": "label"}).encode()),
        post(server, path, b" " * 20_000),
        post(server, path, b"[" * 9_000),
        post(server, "/api/pictures/9", good),
        post(server, f"/api/pictures/{'9' * 5_000}", good),
    ]
    assert [status for status, _ in refused] == [403, 415, 400, 400, 422, 413, 400, 422, 404]
    assert all(reply["error"] for _, reply in refused)
    assert not (fit / "labels.csv").exists()
    assert post(server, path, good)[0] == 200
    assert list(label_file.read(fit / "labels.csv").values()) == [CAT]


def test_a_file_that_is_damaged_while_the_page_is_open_is_a_sentence(server, fit):
    (fit / "labels.csv").write_text("path,label,decision\na,cat,maybe\n")
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", "/api/pictures")
        reply = connection.getresponse()
        assert reply.status == 422
        assert "line 2: expected path,label,decision" in json.loads(reply.read())["error"]


def test_a_person_labels_by_click_and_by_key(page, server, fit):
    page.open(server.address)
    page.wait_for("document.querySelectorAll('#classes button').length === 3")
    names = page.evaluate("[...document.querySelectorAll('#classes button span')].map(e => e.textContent)")
    assert names == ["dog", "cat", "<b>bird</b>"], "the model's guesses come first, and names are text"
    page.evaluate("document.querySelectorAll('#classes button')[1].click()")
    page.wait_for("document.querySelector('#status').textContent.startsWith('Picture 2 of 3; 1 decided')")
    page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))")
    page.wait_for("document.querySelector('#status').textContent.startsWith('Picture 3 of 3; 2 decided')")
    assert list(label_file.read(fit / "labels.csv").values()) == [CAT, NONE]
    assert page.hosts == {f"127.0.0.1:{server.port}"}
