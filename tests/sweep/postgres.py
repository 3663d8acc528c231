"""A PostgreSQL server of a test's own: Debian's package, a folder of its own, only on this machine."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "a secret"
START_S = 30.0


def programs() -> Path | None:
    """The folder with initdb and postgres; None if they are not installed."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


def _user() -> dict[str, str]:
    """The server refuses to run as root; Debian's package makes a user for it."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@contextmanager
def server(place: Path) -> Iterator[str]:
    """Start a server; yield its address for --storage. `place` has the programs."""
    folder = Path(tempfile.mkdtemp(prefix="metapl-postgres-", dir="/tmp"))  # sockets need a short path
    try:
        (folder / "password").write_text(PASSWORD)
        if _user():
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        words = ["-D", folder / "data", "-U", "metapl", "--auth", "scram-sha-256", "--pwfile", folder / "password"]
        subprocess.run([place / "initdb", *words], check=True, capture_output=True, cwd=folder, **_user())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": folder, "fsync": "off"}
        words = [f"-c{name}={value}" for name, value in options.items()]
        with (folder / "log").open("w") as log:
            command = [place / "postgres", "-D", folder / "data", "-p", str(port), *words]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **_user())
        try:
            _wait(place, port, process)
            yield f"postgresql://metapl:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # does not wait for clients
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(place: Path, port: int, process: subprocess.Popen) -> None:
    end = time.monotonic() + START_S
    ready = [place / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]
    while subprocess.run(ready, check=False).returncode:
        assert process.poll() is None, "the server has ended"
        assert time.monotonic() < end, f"the server does not answer after {START_S:.0f} s"
        time.sleep(0.1)
