"""A real browser for tests of pages: headless Chromium, spoken to in its DevTools protocol over a pair of pipes.

No driver, no port and no package is needed, only the browser itself. `tests/conftest.py` has it as fixtures:

    def test_a_page(page):
        page.set_width(390)                          # a phone's; page.set_scheme("dark")
        page.open("http://127.0.0.1:8765/")          # file:// works, too
        page.choose_file("#file", Path("cat.png"))
        page.wait_for("document.querySelector('.bar')")
        assert page.evaluate("document.title") == "…"
        assert page.text("#error") == ""
        assert page.errors == []                     # console errors, exceptions, what a policy has blocked
        assert page.hosts == {"127.0.0.1:8765"}      # whom it has asked for anything
        page.screenshot(Path("page.png"))            # the whole page, however long
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 60.0  # with a machine that has much else to do
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # which root does not get; the only pages it sees are ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    # Nothing that a browser does on its own account:
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


def find() -> str | None:
    """The browser of METAPL_BROWSER, which must then be there, or the first that is installed."""
    if named := os.environ.get("METAPL_BROWSER"):
        return named
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """A running browser."""

    def __init__(self, program: str, folder: Path) -> None:
        """`folder` is for what it stores."""
        down, up = os.pipe(), os.pipe()
        # It reads from file 3 and writes to file 4; above 9 nothing is in the way of either.
        ours = down[1], up[0]
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (down[0], up[1])]
        os.close(down[0])
        os.close(up[1])
        script = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}'
        command = ["bash", "-c", script, "browser", program, *FLAGS, f"--user-data-dir={folder}"]
        log = (folder / "browser.log").open("wb")
        with log:
            self._process = subprocess.Popen(command, pass_fds=theirs, stdout=log, stderr=log, start_new_session=True)
        for end in theirs:
            os.close(end)
        self._write, self._read = ours
        self._buffer, self._number = b"", 0
        self.pages: dict[str, Page] = {}
        self.send("Browser.getVersion")

    def new_page(self) -> "Page":
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, target, self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer; what happens meanwhile is told to the pages."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.receive(until - time.monotonic())
            assert answer is not None, f"the browser does not answer to {method}"
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, None if there is none in time."""
        until = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            block = os.read(self._read, 1 << 20)
            assert block, "the browser has ended"
            self._buffer += block
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if page := self.pages.get(message.get("sessionId", "")):
            page.note(message.get("method", ""), message.get("params", {}))
        return message

    def close(self) -> None:
        try:
            self.send("Browser.close")
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._write)
            os.close(self._read)


class Page:
    """One tab."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session
        self.errors: list[str] = []
        self.requests: list[str] = []
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    @property
    def hosts(self) -> set[str]:
        """Whom the page has asked; what it made itself (blob:, data:) has none."""
        return {urlsplit(url).netloc for url in self.requests if not url.startswith(("blob:", "data:"))}

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Keep what tests ask for."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}".strip())
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Go there and wait until all is loaded."""
        failure = self._send("Page.navigate", url=url).get("errorText")
        assert not failure, f"{url}: {failure}"
        self.wait_for(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, of a promise when it is kept."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = PATIENCE_S) -> None:
        """Wait until it is true."""
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < until, f"{expression} never came true; errors: {self.errors}"
            self._browser.receive(0.02)

    def text(self, selector: str) -> str:
        """What a person reads there."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector: str) -> list[str]:
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)")

    def choose_file(self, selector: str, path: Path) -> None:
        """As a person does in the dialogue that a file input opens."""
        document = self._send("DOM.getDocument")["root"]["nodeId"]
        node = self._send("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self._send("DOM.setFileInputFiles", nodeId=node, files=[str(path.absolute())])

    def press(self, key: str) -> None:
        """A key that has a name: Tab, Enter, End, Home, ArrowLeft."""
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37}
        words = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        typed = {"text": "\r"} if key == "Enter" else {}
        self._send("Input.dispatchKeyEvent", type="keyDown", **words, **typed)
        self._send("Input.dispatchKeyEvent", type="keyUp", **words)

    def set_width(self, width: int, height: int = 844) -> None:
        """Of the window, in CSS pixels; as a phone's below 500."""
        phone = width < 500
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self._send("Emulation.setDeviceMetricsOverride", **metrics)

    def set_scheme(self, scheme: Literal["light", "dark"], less_motion: bool = False) -> None:
        """What the person's system prefers."""
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce" if less_motion else ""}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self._send("Emulation.setEmulatedMedia", features=features)

    def scrolls_sideways(self) -> bool:
        """Is anything wider than the window?"""
        return self.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG, also what is below the window's edge."""
        size = self._send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        del self._browser.pages[self._session]
        self._browser.send("Target.closeTarget", targetId=self._target)

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **params)
