"""A person at the page of `metapl label`, for the campaign of kills: label what is not labelled yet, then stop.

python -m faults.label_client FIT FILE
"""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

PATIENCE_S = 300  # on a busy machine an answer takes long; only a campaign that fails waits so long


def main() -> None:
    """Start the server, decide about every picture that has no decision, and stop the server."""
    fit, file = sys.argv[1:]
    command = [sys.executable, "-m", "metapl", "label", fit, "--port", "0", "--file", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = next((m[1] for line in server.stdout if (m := re.search(r"(http://\S+/)", line))), None)
            if address is None:
                sys.exit(2)
            for picture in _ask(f"{address}api/pictures")["pictures"]:
                if picture["decision"] is None:
                    number = picture["number"]
                    choice = (
                        {"label": "cat", "choice": "label"} if number % 2 else {"label": "", "choice": "none_of_these"}
                    )
                    _ask(f"{address}api/pictures/{number}", choice)
        finally:
            server.terminate()


def _ask(address: str, decision: dict[str, str] | None = None) -> Any:
    body = json.dumps(decision).encode() if decision else None
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as refused:
        with refused:
            if refused.code == HTTPStatus.INTERNAL_SERVER_ERROR:
                raise  # the server has no sentence about this: a failure
            sys.exit(f"the page says: {json.load(refused)['error']}")


if __name__ == "__main__":
    main()
