"""Mutated HTTP requests over real sockets, to the servers of `metapl serve`, `label` and `watch` in this process.

Accepted are a reply below status 500, a sentence that the server is busy or full, and, for a request that is not whole,
a connection that is closed. A request may say `Content-Length: AUTO`: then the length is that of its body, so that
damaged pictures reach the decoder.
"""

import atexit
import contextlib
import csv
import functools
import json
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import h11
from PIL import Image

from faults.random_run import make_run
from faults.report import FailedError
from faults.sets import CLASSES, pictures
from metapl.data.reading.decode import DataError
from metapl.evaluate import predictor as predictors
from metapl.fit import label_file
from metapl.web.label import queue
from metapl.web.label.routes import LABEL
from metapl.web.replies import Site
from metapl.web.serve.network import ServedNetwork, facts
from metapl.web.serve.routes import SERVE
from metapl.web.server import Limits, Server
from metapl.web.watch.live_page import LivePage
from metapl.web.watch.routes import WATCH

LIMITS = Limits(max_bytes=100_000, head_s=2, body_s=0.5, linger_s=0.1, stop_s=1)
PATIENCE_S = 10.0  # for a reply
MOST_LABELS = 50_000  # bytes of labels.csv before it is begun again
BUSY = (503, 507)
HEAD = "Host: localhost\r\nConnection: close\r\n"
PATHS = {
    "serve": ("/", "/page.js", "/api/model", "/healthz", "/?a=b"),
    "label": ("/", "/page.css", "/api/pictures", "/api/pictures/0.png", "/api/pictures/5.png"),
    "watch": ("/", "/body", "/version?have=0", "/favicon.ico"),
}


class _Recording(Server):
    """A server that notes its complaints instead of printing them."""

    def __init__(self, site: Site) -> None:
        self.complaints: list[str] = []
        super().__init__("127.0.0.1", 0, LIMITS, site)

    def complain(self, sentence: str) -> None:
        self.complaints.append(sentence)


def seeds(site: str, place: Path) -> list[bytes]:
    """Requests that a browser sends."""
    found = [f"GET {path} HTTP/1.1\r\n{HEAD}\r\n".encode() for path in PATHS[site]]
    if site == "serve":
        found += [_post("/api/predict", "image/png", picture) for picture in pictures(2)]
    if site == "label":
        decisions = [{"label": "cat", "choice": "label"}, {"label": "", "choice": "none_of_these"}]
        found += [
            _post(f"/api/pictures/{n}", "application/json", json.dumps(d).encode()) for n, d in enumerate(decisions)
        ]
    return found


def _post(path: str, kind: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\n{HEAD}Origin: http://localhost\r\nContent-Type: {kind}\r\nContent-Length: AUTO\r\n"
    return f"{head}\r\n".encode() + body


def read(site: str, path: Path) -> None:
    """Send a request; DataError if it is refused, FailedError if the server failed."""
    head, separator, body = path.read_bytes().partition(b"\r\n\r\n")
    head = head.replace(b"Content-Length: AUTO", b"Content-Length: %d" % len(body))
    server = _running(site)
    reply = _exchange(server.port, head + separator + body)
    if server.complaints:
        raise FailedError(re.sub("[0-9]+", "#", server.complaints.pop()))
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", reply)
    if reply and status is None:
        raise FailedError("the reply is not HTTP")
    code = int(status[1]) if status else 400
    if code >= 500 and code not in BUSY:
        raise FailedError(f"status {code}")
    if site == "label":
        _check_labels(server.service.file)
    if code >= 400:
        raise DataError(f"refused with status {code}")


def _is_whole(data: bytes) -> bool:
    """Whether a server that waits for more would wait in vain: the request is complete, or it is no request."""
    parser = h11.Connection(h11.SERVER)
    try:
        parser.receive_data(data)
        event = parser.next_event()
        while isinstance(event, h11.Request | h11.Data):
            event = parser.next_event()
    except h11.RemoteProtocolError:
        return True
    return event is not h11.NEED_DATA and bool(data)


def _exchange(port: int, data: bytes) -> bytes:
    received = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
            if not _is_whole(data):
                client.shutdown(socket.SHUT_WR)  # uvicorn then closes the connection, without a reply
        try:
            while block := client.recv(65536):
                received += block
        except ConnectionError:
            pass
        except TimeoutError:
            raise FailedError("no reply in time") from None
    return received


def _check_labels(file: Path) -> None:
    """Whatever was sent, what is written down can be read."""
    label_file.read(file)
    if file.exists() and file.stat().st_size > MOST_LABELS:
        file.unlink()


@functools.cache
def _running(site: str) -> _Recording:
    """The server of a site, until this process ends."""
    place = Path(tempfile.mkdtemp(prefix="metapl-faults-"))
    sites: dict[str, tuple[Site, Any]] = {"serve": (SERVE, _network), "label": (LABEL, _queue), "watch": (WATCH, _page)}
    routes, make = sites[site]
    server = _Recording(routes)
    server.start(make(place))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    atexit.register(server.stop)
    return server


def _network(place: Path) -> ServedNetwork:
    predictor = predictors.load(make_run(place, CLASSES))
    served = ServedNetwork(predictor, facts("mine", place, predictor), None, "there are none")
    served.warm_up()
    return served


def _queue(place: Path) -> queue.LabelQueue:
    write_fit(place)
    return queue.load(place / "fit", None)


def _page(place: Path) -> LivePage:
    return LivePage([make_run(place, CLASSES)])


def write_fit(place: Path) -> None:
    """The folder of a fit, as far as `metapl label` reads it, with ten pictures; eight are to be labelled."""
    fit, folder = place / "fit", place / "pictures"
    fit.mkdir()
    folder.mkdir()
    paths = [(folder / f"{number}.png").absolute() for number in range(10)]
    for number, path in enumerate(paths):
        Image.new("RGB", (9, 8), (20 * number, 0, 0)).save(path)
    with (fit / "pictures.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [
            (path, CLASSES[n] if n < 2 else "", "labeled" if n < 2 else "unlabeled") for n, path in enumerate(paths)
        ]
        csv.writer(file).writerows([("path", "label", "split"), *rows])
    guess = {"prediction": "dog", "probability": 0.5, "second": "cat", "second_probability": 0.25}
    asked = [{"path": str(path), **guess} for path in paths[2:]]
    (fit / "verdict.json").write_text(json.dumps({"label_next": asked}))
    (fit / "fit.json").write_text(json.dumps({"format": 2}))
    (fit / "data.json").write_text(json.dumps({"class_names": CLASSES}))
