"""`metapl export`: writes a folder with all files, or none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl.cli import data_folders
from metapl.cli.flags import parse
from metapl.evaluate import predictor
from metapl.evaluate.predictor import Predictor
from metapl.export import check
from metapl.export.card import Exported, card
from metapl.export.formats import FORMATS, is_rough, merged, plain
from metapl.schema import ConfigError, validate
from metapl.system import folders, runtime
from metapl.system.disk import reason
from metapl.system.terminal import Terminal, sayer


@dataclass(frozen=True)
class ExportFlags:
    """What to export, and where the files go."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a finished run, or of metapl fit."""
    onnx: bool = False
    """Write model.onnx, for onnxruntime and other programs (pip install 'metapl[export]')."""
    stablehlo: bool = False
    """Write model.stablehlo, for jax.export on CPUs, GPUs and TPUs."""
    safetensors: bool = False
    """Write model.safetensors: only the weights, with the network's settings as notes."""
    pictures: Annotated[Path | None, tyro.conf.arg(name="check")] = None
    """A folder or file of pictures to check the export with. Default: the run's own pictures if found, else noise."""
    out: Path | None = None
    """Folder for the files: new or empty. Default: runs/export, or the next free name after it."""
    data_dir: Path | None = None
    """Where the run's data are, if they were moved."""
    seed: int | None = None
    """Which seed's weights, if the run has several. Default: the first."""

    @property
    def kinds(self) -> list[str]:
        """The formats to write."""
        return [kind for kind in FORMATS if getattr(self, kind)]


def export(args: Sequence[str]) -> None:
    """Write a run's network as ONNX, StableHLO or safetensors.

    The files include the preprocessing of stored pictures and the temperature: bytes go in, probabilities come out, for
    any batch size. Each file is read back and compared with the run on pictures; a file that differs is not kept. Also
    writes model_card.md: classes, input, results, and code that runs the file.

    Examples:
      metapl export runs/mine --onnx --out exports/mine
      metapl export runs/mine --onnx --stablehlo --safetensors --check photos
    """
    flags = parse(ExportFlags, "metapl export", export, args)
    validate(flags)
    if not flags.kinds:
        raise ConfigError("export needs a format: --onnx, --stablehlo, --safetensors, or several of them")
    runtime.start()
    loaded = predictor.load(flags.run, flags.seed)
    asked = check.examples_for(loaded, loaded.run, flags.pictures, data_folders.folders(flags.data_dir))
    folder = flags.out or folders.next_free(Path("runs/export"))
    existed = folder.exists()
    out = folders.claim(folder)
    try:
        exported = _write(loaded, flags.kinds, asked, out)
    except BaseException:
        if not existed and out.exists():
            out.rmdir()  # it is empty: unfinished files are in a folder beside it
        raise
    _say_what_was_written(exported, asked, out)


def _write(loaded: Predictor, kinds: Sequence[str], asked: check.CheckExamples, out: Path) -> list[Exported]:
    """Write the files, and check them: all of them are kept, or none."""
    try:
        with folders.all_or_nothing(out) as place:
            exported = [_write_one(loaded, kind, asked, place) for kind in kinds]
            (place / "model_card.md").write_text(card(loaded, exported, asked), "utf-8", "backslashreplace")
            (place / "classes.json").write_text(json.dumps(loaded.class_names) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--out {out} could not be written: {reason(error)}") from None
    return exported


def _write_one(loaded: Predictor, kind: str, asked: check.CheckExamples, place: Path) -> Exported:
    file, writer = FORMATS[kind]
    ready = merged(loaded)
    ask = writer(ready if kind == "safetensors" else plain(ready), place / file)
    difference = check.largest_difference(loaded, ask, asked.examples)
    rough = is_rough(loaded) and kind != "safetensors"
    check.refuse_if_far(kind, difference, check.ROUGH_TOLERANCE if rough else check.TOLERANCE)
    return Exported(kind, file, difference)


def _say_what_was_written(exported: Sequence[Exported], asked: check.CheckExamples, out: Path) -> None:
    """Say what was written and how it was checked."""
    tell = sayer(Terminal())
    for each in exported:
        tell(f"{each.file}: largest difference {each.difference:.1e} on {len(asked.examples)} {asked.words}")
    tell(f"Wrote {out}: {', '.join(each.file for each in exported)}, model_card.md and classes.json")
