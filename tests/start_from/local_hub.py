"""A Hugging Face Hub on the loopback interface: what its API and its downloads answer, and what can go wrong there.

What a repository is depends on its name: good, no_file, pickle, wrong, cut, cut_late, no_checksum, no_config, broken.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" * 6 + "cafe"
CONFIG = {
    "architecture": "vit_tiny_patch4_16",
    "num_classes": 3,
    "global_pool": "token",
    "pretrained_cfg": {"input_size": [3, 16, 16], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]},
}


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class LocalHub(ThreadingHTTPServer):
    """Answers like the Hub; `asked` are the requests so far, with their headers."""

    def __init__(self, weights: bytes, config: bytes = json.dumps(CONFIG).encode()) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.weights, self.config = weights, config
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_) -> None:
        """A client that hangs up is no news here."""


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalHub

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        place = self.path.partition("?")[0].strip("/").split("/")
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        if place[:3] == ["api", "models", "timm"]:
            self.list_files(place[3])
        elif place[0] == "timm" and place[2] == "resolve":
            self.send_file(place[1], place[-1])
        else:
            self.answer(404, b"")

    do_HEAD = do_GET  # noqa: N815

    def list_files(self, name: str) -> None:
        weights = {
            "rfilename": "model.safetensors",
            "size": len(self.server.weights),
            "blobId": git_sha1(b"a pointer"),
            "lfs": {"sha256": hashlib.sha256(self.server.weights).hexdigest(), "size": 1, "pointerSize": 130},
        }
        config = {"rfilename": "config.json", "blobId": git_sha1(self.server.config)}
        pickle = weights | {"rfilename": "pytorch_model.bin"}
        files = {
            "no_file": [config],
            "no_config": [weights],
            "pickle": [config, pickle],
            "no_checksum": [{"rfilename": "model.safetensors"}],
        }
        if name == "missing":
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif name == "broken":
            self.answer(503, b"{}")
        elif name == "no_hub":
            self.answer(200, b"<html>", {"Content-Type": "text/html"})
        else:
            listed = files.get(name, [config, weights, pickle])
            self.answer(200, json.dumps({"id": f"timm/{name}", "sha": COMMIT, "siblings": listed}).encode())

    def send_file(self, name: str, file: str) -> None:
        content = {"config.json": self.server.config, "model.safetensors": self.server.weights}.get(file)
        if content is None:
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        tag = git_sha1(content) if file == "config.json" else hashlib.sha256(content).hexdigest()
        if name == "wrong":
            content = content[:-1] + bytes([content[-1] ^ 1])
        sent = {"cut": 0, "cut_late": len(content) - 1}.get(name, len(content)) if file != "config.json" else None
        self.answer(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'}, sent)

    def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None, sent: int | None = None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[:sent])
            self.close_connection = sent not in (None, len(content))


@contextmanager
def serving(weights: bytes) -> Iterator[LocalHub]:
    with LocalHub(weights) as hub:
        thread = threading.Thread(target=hub.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
