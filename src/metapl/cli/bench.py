"""`metapl bench`."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl.bench import report as reports
from metapl.bench import settings
from metapl.bench.benchmark import benchmark
from metapl.cli.flags import asks_for_help, parse, split_words
from metapl.cli.verbs import print_help
from metapl.models import onednn
from metapl.schema import validate
from metapl.system import runtime
from metapl.system.folders import claim, next_free
from metapl.system.terminal import Terminal, say, sayer


@dataclass(frozen=True)
class BenchFlags:
    """What to measure, and where the numbers go."""

    bench: Annotated[settings.Bench, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder for bench.json: new or empty. Default: runs/bench, or the next free name after it."""


def bench(args: Sequence[str]) -> None:
    """Measure the speed of training and inference, and the memory.

    The first word is the name of a network or a preset, or the path of a TOML file; a second word may name another
    method. The pictures are noise. Prints a table and writes bench.json; docs/speed.md explains the columns.

    Examples:
      metapl bench wide_resnet --batch 64 128
      metapl bench wide_resnet mpl --batch 16 --unlabeled-batch 112 --no-starts
      metapl bench two_moons_mpl --help     lists the settings, with the preset's values
    """
    words, rest = split_words(args)
    if not words and asks_for_help(rest):
        usage = "metapl bench NETWORK_OR_PRESET_OR_TOML [METHOD] [--out FOLDER] [--SETTING VALUE …]"
        print_help(usage, bench, _choices())
        return
    default = BenchFlags(settings.choose(words))
    flags = parse(BenchFlags, f"metapl bench {' '.join(words)}", bench, rest, default)
    validate(flags)
    out = claim(flags.out or next_free(Path("runs/bench")))
    runtime.start()
    terminal = Terminal()
    with _progress(terminal) as tell:
        report = benchmark(flags.bench, tell)
    (out / "bench.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    terminal.print(*reports.tables(report), sep="\n")
    say(terminal, f"wrote {out}/bench.json")
    if flags.bench.model.convolutions and (hint := onednn.hint()):
        say(terminal, hint)


@contextmanager
def _progress(terminal: Terminal) -> Iterator[Callable[[str], None]]:
    """Give a function that shows progress: one line that changes on a terminal, plain lines elsewhere."""
    if not terminal.is_terminal:
        yield sayer(terminal)
        return
    with terminal.status("starting") as status:
        yield status.update


def _choices() -> str:
    """Return the networks and methods, which stand where the flags would: these depend on the network."""
    networks, methods = ", ".join(settings.NETWORKS), ", ".join(settings.METHODS)
    return f"Networks: {networks}\nMethods: {methods}\nPresets: metapl train --help lists them"
