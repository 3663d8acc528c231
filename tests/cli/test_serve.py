"""`metapl serve` from its flags to its end."""

import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest

from metapl.cli import main as cli
from metapl.web.server import Server
from tests import small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return small_run.make(tmp_path_factory.mktemp("small"))


@pytest.fixture
def visit(monkeypatch):
    """Visit the server as soon as it has started, then end it with a signal; what the visit has found."""
    found: dict = {}
    start = Server.start

    def started(server, service) -> None:
        start(server, service)

        def look() -> None:
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            client.request("GET", "/api/model", headers={"Authorization": f"Bearer {server.token}"})
            found.update(json.loads(client.getresponse().read()))
            client.close()
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=look).start()

    monkeypatch.setattr(Server, "start", started)
    return found


def test_a_run_is_served_until_a_signal(run, visit, capsys):
    cli.main(["serve", str(run), "--port", "0", "--max-mb", "0.5"])
    said = capsys.readouterr().out
    assert "Loaded 12 labelled pictures\nReady: http://127.0.0.1:" in said
    assert said.endswith("SIGTERM: stopping\n")
    assert "Warning" not in said
    assert (visit["run"], visit["examples"], visit["max_bytes"]) == ("run", 12, 500_000)


def test_without_its_data_a_run_is_served_all_the_same_and_says_so(run, visit, capsys, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    noted = json.loads((copy / "environment.json").read_text())
    (copy / "environment.json").write_text(json.dumps(noted | {"data_folders": [str(tmp_path / "gone")]}))
    cli.main(["serve", str(copy), "--port", "0", "--host", "0.0.0.0"])
    said = capsys.readouterr().out
    assert "Warning: other machines can reach this server; everyone who has its token" in said
    assert re.search(r"Ready: http://0\.0\.0\.0:\d+/\?token=[\w-]{20,} ", said)
    assert "No labelled examples will be shown: csv: there is no pictures.csv" in said
    assert "were moved or have changed" in visit["why_no_examples"]
    assert str(tmp_path) not in json.dumps(visit)  # where things lie on this machine is not everybody's business


@pytest.mark.parametrize("verb", ["serve", "watch"])
def test_without_the_extra_the_way_out_is_named(run, verb, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name))
    with pytest.raises(SystemExit):
        cli.main([verb, str(run)])
    assert f"metapl {verb} needs uvicorn, which is not installed: pip install 'metapl[serve]'" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["nowhere"], "nowhere is not the folder of a run"),
        (["RUN", "--port", "70000"], "port takes"),
        (["RUN", "--max-mb", "0"], "max_mb takes"),
        (["RUN", "--examples", "-1"], "examples takes"),
        (["RUN", "--host", "not a name"], "cannot be used"),
        (["RUN", "--port", "0", "--data-dir", "nowhere"], "--data-dir nowhere is not a folder"),
        ([], "required"),
    ],
)
def test_a_mistake_is_a_sentence(run, flags, words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *(flag.replace("RUN", str(run)) for flag in flags)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
