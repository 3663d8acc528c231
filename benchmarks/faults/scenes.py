"""What is disturbed: a command of each verb that writes, how it is continued, and which of its files must be equal."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import metapl
from faults.http_requests import write_fit
from metapl import config as configs
from metapl.algorithms import METHODS
from metapl.config import Checkpoint, Config

STEPS, EVERY = 40, 8  # steps of a stage, and between checkpoints
RESULTS = ("**/weights*.safetensors", "**/metrics.jsonl", "**/evaluations.csv", "**/confusion.npz")
FORK = "METAPL_FAULTS_FORK"  # set: start commands by fork (forked.py)
Prepare = Callable[[Path], None]  # writes into an empty folder what the command reads


class Process(Protocol):
    """A command that was started."""

    pid: int
    returncode: Any

    def poll(self) -> int | None:
        """The exit code; None while it runs."""

    def communicate(self, *, timeout: float | None = None) -> tuple[Any, Any]:
        """Wait for its end; return what it printed."""


@dataclass(frozen=True)
class Scene:
    """A command in a folder of its own, and what counts of what it leaves behind."""

    prepare: Prepare
    command: tuple[str, ...]
    again: tuple[str, ...] = ()  # how a user continues it; empty: the same command
    results: tuple[str, ...] = RESULTS  # patterns of the files that must be equal
    out: str = "out"  # where it writes
    program: str = "metapl"  # the module that the command is given to

    @property
    def continued(self) -> tuple[str, ...]:
        """The command that a user gives after a fault."""
        return self.again or self.command


def lay_out(scene: Scene, place: Path) -> None:
    """Fill a folder with what the command reads; it is prepared once, and copied from then on."""
    template = place.parent / "template"
    if not template.exists():
        template.mkdir(parents=True)
        scene.prepare(template)
    shutil.copytree(template, place, dirs_exist_ok=True)


def start(place: Path, words: tuple[str, ...], program: str = "metapl") -> Process:
    """Start a program in a process group of its own; what one process has compiled, the next ones find."""
    packages = (Path(metapl.__file__).parents[1], Path(__file__).parents[1])
    more = {
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "JAX_COMPILATION_CACHE_DIR": str(place.parent / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    if os.environ.get(FORK) and program == "metapl":
        from faults import forked

        forked.import_all()
        return forked.Child(place, words, more)
    return subprocess.Popen(
        [sys.executable, "-m", program, *words], cwd=place, env=os.environ | more, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def digests(scene: Scene, place: Path) -> dict[str, str]:
    """SHA-256 of every file that counts, without what tells the time."""
    files = {file for pattern in scene.results for file in (place / scene.out).glob(pattern) if file.is_file()}
    if (place / scene.out).is_file():
        files.add(place / scene.out)
    return {str(file.relative_to(place)): sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def _shortened(name: str) -> Config:
    """A preset with few steps and many checkpoints."""
    config = configs.load(name)
    stages = tuple(dataclasses.replace(stage, steps=STEPS) for stage in config.stages)
    return dataclasses.replace(
        config, stages=stages, log_every_steps=10, eval_every_steps=20, checkpoint=Checkpoint(every_steps=EVERY, keep=2)
    )


def _write_settings(preset: str) -> Prepare:
    def prepare(place: Path) -> None:
        (place / "my.toml").write_text(configs.dump(_shortened(preset)))

    return prepare


def write_digits(folder: Path, classes: int = 10, each: int = 60) -> None:
    """Digits as PNGs: `each` pictures in labeled/CLASS, in test/CLASS, and twice as many in unlabeled."""
    digits = load_digits()
    rows = np.flatnonzero(digits.target < classes)[: 4 * each]
    for number, row in enumerate(rows):
        role = ("labeled", "test", "unlabeled")[min(number // each, 2)]
        part = folder / role / (f"{digits.target[row]}" if role != "unlabeled" else "")
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[row] * 15.9).astype(np.uint8)).resize((12, 12)).save(part / f"{row}.png")


def _trained(place: Path) -> None:
    """A finished run, and pictures, for verbs that use one."""
    write_digits(place / "pictures")
    (place / "my.toml").write_text(configs.dump(_shortened("digits_supervised_small")))
    _finish(place, ("train", "my.toml", "--out", "run"))


def _finish(place: Path, words: tuple[str, ...]) -> None:
    process = start(place, words)
    text, _ = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(f"metapl {' '.join(words)} failed while the scene was prepared:\n{text}")


STUDY = """
seeds = 2
set = {"stages.0.steps" = 30, "checkpoint.every_steps" = 10}
[arms.none]
preset = "two_moons_mpl_none"
[arms.mpl]
preset = "two_moons_mpl"
[[pairs]]
arm = "mpl"
control = "none"
"""


def _study(place: Path) -> None:
    (place / "study.toml").write_text(STUDY)


def _fit(place: Path) -> None:
    write_digits(place / "pictures", classes=3, each=21)


def _fit_of_labels(place: Path) -> None:
    _fit(place)
    shutil.rmtree(place / "pictures" / "unlabeled")


TINY = """
import sys
from pathlib import Path
import jax
import jax.numpy as jnp
from metapl import models, weights
from metapl.models.efficientnet_lite import EfficientNetLite
from metapl.schema import to_dict
tiny = EfficientNetLite(width=0.1, depth=0.1)
variables = models.build(tiny, 3).init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
weights.save(Path(sys.argv[1]), variables, to_dict(tiny), ("a", "b", "c"))
"""


def _fit_of_weights(place: Path) -> None:
    """Enough labels to finetune a network, and its weights; another process makes them, as this one may fork later."""
    write_digits(place / "pictures", classes=2, each=104)
    path = Path(metapl.__file__).parents[1]
    command = [sys.executable, "-c", TINY, str(place / "tiny.safetensors")]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(path)})


def _labeling(place: Path) -> None:
    write_fit(place)
    (place / "out").mkdir()


def _probabilities(place: Path) -> None:
    """Probabilities to select from."""
    np.save(place / "p.npy", np.random.default_rng(0).dirichlet(np.ones(10), 400).astype(np.float16))


def _train(preset: str) -> Scene:
    return Scene(_write_settings(preset), ("train", "my.toml", "--seeds", "2", "--out", "out"), ("resume", "out"))


FIT = ("fit", "pictures", "--features", "patches", "--no-mirror", "--steps", "10", "--out", "out")
SCENES: Mapping[str, Scene] = {
    f"train-{method.name}": _train(f"digits_{method.name}_small")
    for method in METHODS
    if f"digits_{method.name}_small" in configs.presets()
} | {
    "fit": Scene(_fit, FIT, results=(*RESULTS, "model.json")),
    "fit-labels": Scene(_fit_of_labels, FIT, results=(*RESULTS, "model.json")),  # no unlabelled pictures
    "fit-finetuned": Scene(
        _fit_of_weights,
        ("fit", "pictures", "--init-from", "tiny.safetensors", "--no-mirror", "--steps", "6", "--out", "out"),
        results=(*RESULTS, "model.json"),
    ),
    "study": Scene(_study, ("study", "study.toml", "--out", "out"), results=(*RESULTS, "study.md")),
    "predict": Scene(_trained, ("predict", "run", "pictures/unlabeled", "--csv", "out.csv"), out="out.csv", results=()),
    "pseudo-label": Scene(
        _trained, ("pseudo-label", "run", "pictures/unlabeled", "--out", "out/p.npy"), results=("*.npy", "*.txt")
    ),
    "export": Scene(
        _trained,
        ("export", "run", "--onnx", "--safetensors", "--out", "out"),
        results=("*.onnx", "*.safetensors"),
    ),
    "data-select": Scene(
        _probabilities, ("data", "select", "p.npy", "--per-class", "5", "--out", "out"), results=("*.csv",)
    ),
    "sweep": Scene(
        _write_settings("digits_supervised_small"),
        ("sweep", "my.toml", "--trials", "2", "--sampler", "random", "--validate-on", "40", "--out", "out"),
        results=("report/best-*.toml",),
    ),
    "label": Scene(_labeling, ("fit", "out/labels.csv"), results=("labels.csv",), program="faults.label_client"),
}
