"""The command line's side: from words and flags to a table and a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from metapl.bench import report as reports
from metapl.bench import run, settings
from metapl.cli.flags import dedent, parse
from metapl.schema import validate
from metapl.system import runtime
from metapl.system.folders import claim, next_free
from metapl.system.terminal import say, sayer


def bench(args: Sequence[str], verb: Callable[..., None]) -> None:
    """Read the words before the first flag, then the flags; measure; print the table and write bench.json."""
    first_flag = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    words, rest = args[:first_flag], args[first_flag:]
    if not words and any(arg in ("-h", "--help") for arg in rest):
        say(Console(), _help(verb))
        return

    @dataclass(frozen=True)
    class Flags:
        bench: Annotated[settings.Bench, tyro.conf.arg(name="")]
        out: Path | None = None
        """Folder for bench.json: new or empty. Default: runs/bench, or the next free name after it."""

    flags = parse(Flags, f"metapl bench {' '.join(words)}", verb, rest, Flags(settings.choose(words)))
    validate(flags)
    out = claim(flags.out or next_free(Path("runs/bench")))
    runtime.start()
    console = Console()
    with _progress(console) as tell:
        report = run.run(flags.bench, tell)
    (out / "bench.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    console.print(*reports.tables(report), sep="\n")
    say(console, f"wrote {out}/bench.json")


@contextmanager
def _progress(console: Console) -> Iterator[run.Say]:
    """A line that changes on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield sayer(console)
        return
    with console.status("starting") as status:
        yield status.update


def _help(verb: Callable[..., None]) -> str:
    """Without a network there are no settings to list, but there are networks and methods."""
    rows: dict[str, Iterable[str]] = {"Networks": settings.NETWORKS, "Methods": settings.METHODS}
    lines = ["usage: metapl bench NETWORK_OR_PRESET_OR_TOML [METHOD] [--out FOLDER] [--SETTING VALUE …]", ""]
    lines += [dedent(verb.__doc__)]
    lines += [f"{title}: {', '.join(names)}" for title, names in rows.items()]
    return "\n".join([*lines, "Presets: metapl train --help lists them"])
