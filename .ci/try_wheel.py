"""Run the README's commands with an installed metapl, in an empty folder: demo, fit, predict, serve.

.ci/wheel starts it with the Python of an environment that holds the wheel and what it needs, nothing else.
"""

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import metapl

METAPL = Path(sys.executable).with_name("metapl")


def run(*words: str) -> str:
    """Run a command to its end, and say how long it took."""
    began = time.monotonic()
    done = subprocess.run([METAPL, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"metapl {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    print(f"metapl {' '.join(words)}: {time.monotonic() - began:.1f} s")
    return done.stdout


def write_digits(place: Path) -> None:
    """scikit-learn's digits 0 to 2 as picture files, some of them unlabelled."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images[:300], digits.target[:300], strict=True)):
        folder = place / ("unlabeled" if number % 3 else f"labeled/{label}")
        if label < 3:
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray((pixels * 15.9).astype("uint8")).save(folder / f"{number}.png")


def ask_server(picture: Path) -> None:
    """Start `metapl serve`, send it a picture, and end it."""
    command = [METAPL, "serve", "runs/mine", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(m[1] for line in server.stdout if (m := re.search(r"Ready: (http://\S+/)", line)))
            headers = {"Content-Type": "image/png"}
            request = urllib.request.Request(f"{address}api/predict", picture.read_bytes(), headers)
            with urllib.request.urlopen(request, timeout=30) as reply:
                classes = json.load(reply)["classes"]
        finally:
            server.terminate()
    print(f"metapl serve: {classes[0]}")


def main() -> None:
    """Run all of them."""
    assert "site-packages" in metapl.__file__, metapl.__file__
    print(run("--version").strip())
    run("--help")
    run("doctor")
    run("demo", "--no-pictures", "--datasets", "2", "--steps", "20", "--out", "runs/demo")
    write_digits(Path("pictures"))
    run("fit", "pictures", "--no-mirror", "--features", "patches", "--budget", "40s", "--out", "runs/mine")
    told = run("predict", "runs/mine", "pictures/unlabeled", "--csv", "predictions.csv")
    rows = Path("predictions.csv").read_text("utf-8").splitlines()
    assert len(rows) == 1 + len(list(Path("pictures/unlabeled").iterdir())), told
    ask_server(next(Path("pictures/unlabeled").iterdir()))


if __name__ == "__main__":
    main()
