"""`metapl export`: its flags, and the folder that is whole or not there."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from metapl.cli.flags import parse
from metapl.data.reading.files import Folders
from metapl.evaluate import predictor
from metapl.evaluate.predictor import Predictor
from metapl.export import check
from metapl.export.card import Exported, card
from metapl.export.formats import FORMATS, is_rough, plain
from metapl.schema import ConfigError, validate
from metapl.system import folders, runtime
from metapl.system.disk import reason


@dataclass(frozen=True)
class Flags:
    """What to export, and where to."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    onnx: bool = False
    """Write model.onnx, which onnxruntime and others run (pip install 'metapl[export]')."""
    stablehlo: bool = False
    """Write model.stablehlo, which jax.export loads on CPUs, GPUs and TPUs."""
    safetensors: bool = False
    """Write model.safetensors: the weights alone, with all notes."""
    pictures: Annotated[Path | None, tyro.conf.arg(name="check")] = None
    """A folder or file of pictures to check the export with. Default: the run's own, else noise."""
    out: Path | None = None
    """Folder for the files: new or empty. Default: runs/export, or the next free name after it."""
    data_dir: Path | None = None
    """Where the run's data are, if they were moved."""
    seed: int | None = None
    """Which seed's weights, if the run has several. Default: the first."""

    @property
    def kinds(self) -> list[str]:
        """The formats that were asked for."""
        return [kind for kind in FORMATS if getattr(self, kind)]


def export(args: Sequence[str], documented: Callable[..., None], places: Callable[[Path | None], Folders]) -> None:
    """Write what was asked for, and say how near it is to the original."""
    flags = parse(Flags, "metapl export", documented, args)
    validate(flags)
    if not flags.kinds:
        raise ConfigError("export needs to know what to write: --onnx, --stablehlo, --safetensors, or several of them")
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    asked = check.examples_for(loaded, loaded.run, flags.pictures, places(flags.data_dir))
    new = flags.out or folders.next_free(Path("runs/export"))
    there = new.exists()
    out = folders.claim(new)
    try:
        exported = write(loaded, flags.kinds, asked, out)
    except BaseException:
        if not there:
            out.rmdir()  # empty again: what was half done has been taken away
        raise
    say(exported, asked, out)


def write(loaded: Predictor, kinds: Sequence[str], asked: check.CheckExamples, out: Path) -> list[Exported]:
    """Write the files beside the folder's place, check them, and move them there when all are right."""
    with tempfile.TemporaryDirectory(prefix=".metapl-", dir=out) as scratch:
        place = Path(scratch)
        try:
            exported = [_write_one(loaded, kind, asked, place) for kind in kinds]
            (place / "model_card.md").write_text(card(loaded, exported, asked), "utf-8", "backslashreplace")
            (place / "classes.json").write_text(json.dumps(loaded.class_names) + "\n", "utf-8")
            for file in sorted(place.iterdir()):
                file.replace(out / file.name)
        except OSError as error:
            raise ConfigError(f"--out {out} could not be written: {reason(error)}") from None
    return exported


def _write_one(loaded: Predictor, kind: str, asked: check.CheckExamples, place: Path) -> Exported:
    file, writer = FORMATS[kind]
    ask = writer(loaded if kind == "safetensors" else plain(loaded), place / file)
    difference = check.largest_difference(loaded, ask, asked.examples)
    rough = is_rough(loaded) and kind != "safetensors"
    check.refuse_if_far(kind, difference, check.ROUGH_TOLERANCE if rough else check.TOLERANCE)
    return Exported(kind, file, difference)


def say(exported: Sequence[Exported], asked: check.CheckExamples, out: Path) -> None:
    """Tell what was written and how it was checked."""
    lines = [
        f"{one.file}: largest difference {one.difference:.1e} on {len(asked.examples)} {asked.words}"
        for one in exported
    ]
    for line in [*lines, f"Wrote {out}: {', '.join(one.file for one in exported)}, model_card.md and classes.json"]:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
