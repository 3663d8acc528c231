"""The command line: verbs; each reads its flags and calls one function.

Nothing heavy is imported before a verb needs it, so that `--help` answers at once.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

import metapl
from metapl.cli.flags import dedent, parse
from metapl.cli.train import eval_run, resume, train
from metapl.schema import ConfigError, validate
from metapl.system.disk import is_refusal, reason
from metapl.system.folders import claim, next_free
from metapl.system.signals import Stopped


def demo(args: Sequence[str]) -> None:
    """Compare the methods on TwoMoon: about two minutes, a table, a picture and a page.

    Trains Supervised, Pseudo Labels, MPL, UDA and MPL+UDA, and MPL with its feedback switched off as the control,
    on the same random data sets, and writes summary.json, accuracies.csv (one row a data set), two_moons.png and
    two_moons.html, a page on which the decision regions move with the training.

    Examples:

      metapl demo

      metapl demo --datasets 20 --out moons
    """
    from metapl import demo as verb
    from metapl.system import runtime

    @dataclass(frozen=True)
    class Flags:
        demo: Annotated[verb.Demo, tyro.conf.arg(name="")] = verb.Demo()
        out: Path | None = None
        """Folder for the results: new or empty. Default: runs/demo, or the next free name after it."""

    flags = parse(Flags, "metapl demo", demo, args, Flags())
    validate(flags)
    out = claim(flags.out or next_free(Path("runs/demo")))
    runtime.start(quick_compile=True)
    console = Console()
    verb.run(flags.demo, out, console)
    wrote = f"Wrote {out}/summary.json, accuracies.csv, two_moons.png and the page {out}/two_moons.html"
    console.print(wrote, highlight=False, markup=False, soft_wrap=True)


def fit(args: Sequence[str]) -> None:
    """Your own pictures: a folder in, a model and a verdict out.

    DATA is a folder (labeled/CLASS/…, unlabeled/…, and val/CLASS/…, test/CLASS/… if there are any), a .csv or an .npz
    (docs/data.md). Looks for bad files and copies, holds pictures out where there is no test part, chooses network and
    steps for the time, trains a supervised baseline and Meta Pseudo Labels, calibrates, and writes a verdict: how good
    both are, whether the unlabelled pictures helped or hurt, and what to label next. The same command goes on with a
    fit that was stopped or killed. docs/own_pictures.md tells more.

    Examples:

      metapl fit ./my_pictures --out runs/mine

      metapl fit pictures.csv --budget 2h --out runs/mine

      metapl fit ./letters --no-mirror --init-from resnet18.safetensors --out runs/letters
    """
    from metapl.fit.request import Request

    @dataclass(frozen=True)
    class Flags:
        data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
        """A folder, a .csv or an .npz."""
        request: Annotated[Request, tyro.conf.arg(name="")] = Request()
        out: Path | None = None
        """Folder of the fit: new or empty, or one to go on with. Default: runs/fit, or the next free name after it; or
        one of these that the same command has begun."""

    flags = parse(Flags, "metapl fit", fit, args)
    validate(flags)
    from metapl.fit.fit import fit as fit_pictures
    from metapl.fit.folder import usual_folder
    from metapl.system import runtime

    runtime.start()
    out = flags.out or usual_folder(flags.data, flags.request)
    fit_pictures(flags.data, flags.request, out, Console())


def sweep(args: Sequence[str]) -> None:
    """Tune methods fairly: the same number of trials for each, judged on validation data.

    The first words are presets or TOML files, one for each method. Every method gets the same number of trials of at
    most so many steps; test data are never looked at. The same command goes on where it was stopped, and several at
    once (--workers, or machines with a common --storage) share the work. Prints a table, and writes trials.csv,
    sweep.json, importance.svg and best-METHOD.toml, which metapl train takes. docs/sweeps.md tells more.

    Examples:

      metapl sweep digits_uda_small digits_mpl_small --trials 20 --max-steps 1000 --validate-on 40 --out sweeps/digits

      metapl sweep my_uda.toml my_mpl.toml --workers 2 --space my_ranges.toml --out sweeps/mine

      metapl sweep my_mpl.toml --storage postgresql://me@server/sweeps --out sweeps/mine
    """
    from metapl.cli import sweep as verb

    verb.sweep(args, sweep)


def data(args: Sequence[str]) -> None:
    """Look at data: check a source for leaks and bad files, show its views, select extra pictures.

    The sources are digits, cifar10, cifar100, svhn, mnist, fashion_mnist, tfrecord (ImageNet), and your own pictures
    as a folder, a .csv or an .npz.

    Examples:

      metapl data check digits

      metapl data show digits --out sheets/digits

      metapl data select probabilities.npy --names paths.txt
    """
    verbs = data_verbs()
    verb, *rest = list(args) or ["--help"]
    if verb in ("-h", "--help"):
        lines = ["usage: metapl data VERB [--out FOLDER] [FLAGS]", "", dedent(data.__doc__)]
        lines += [f"  {name:<10}{_first_line(function)}" for name, function in verbs.items()]
        lines += ["", "metapl data VERB --help tells what it does and which flags it takes."]
        Console().print("\n".join(lines), highlight=False, markup=False)
    elif verb in verbs:
        verbs[verb](rest)
    else:
        raise ConfigError(f"there is no verb {verb!r} of data; the verbs are {', '.join(verbs)}")


def data_verbs() -> dict[str, Callable[[Sequence[str]], None]]:
    """The verbs below `data`."""
    from metapl.cli import data as data_cli

    return {"check": data_cli.check, "show": data_cli.show, "select": data_cli.select}


def bench(args: Sequence[str]) -> None:
    """Measure a training step and inference: time, share of the machine's peak, memory, start.

    The first word is the name of a network or a preset, or the path of a TOML file; a second one may name another
    method. The pictures are noise. Prints a table and writes bench.json; docs/speed.md tells what the columns mean.

    Examples:

      metapl bench wide_resnet --batch 64 128

      metapl bench wide_resnet mpl --batch 16 --unlabeled-batch 112 --no-starts

      metapl bench two_moons_mpl --help     lists the settings, with the preset's values
    """
    from metapl.cli import bench as verb

    verb.bench(args, bench)


def plan(args: Sequence[str]) -> None:
    """Plan a run for machines that are not here: memory, collectives, time of a step.

    Compiles the whole training step of a stage (views of a batch, teacher, student, feedback, optimizers, averages)
    from shapes alone, for a TPU slice or for so many devices of this CPU, and says what each device has to hold, to
    compute, to send; how long a step takes at the least; whether it fits, and if not, what to change. No data, TPU or
    GPU is needed. Every setting is a flag, too: --parallel.model, --model.remat, --stages.0.microbatches, …

    Exit code 0: it fits; 1: it does not. docs/scale.md tells what the rows mean.

    Examples:

      metapl plan digits_mpl_small --devices 8

      metapl plan cifar10_4k_mpl --devices 8 --chip a100 --json

      metapl plan efficientnet_l2_mpl --topology v3:32x32      the paper's own, in minutes (pip install 'metapl[tpu]')

      metapl plan resnet50_imagenet_mpl --topology v3:16x16 --parallel.mode data --help      lists all settings
    """
    from metapl.cli import plan as verb

    verb.plan(args, plan)


def predict(args: Sequence[str]) -> None:
    """Ask a finished run about new pictures: files, folders, patterns; a table, a CSV or JSON.

    RUN is the folder of a run, or of metapl fit; its data are not needed. Pictures are read as in training, in
    parallel, and answered in their order. One that cannot be read is told of in its row, and the others go on.
    docs/own_pictures.md tells what the columns hold.

    Exit code 0: some pictures were answered; 1: not one could be read; 2: RUN cannot be used.

    Examples:

      metapl predict runs/mine photo.jpg

      metapl predict runs/mine photos 'more/**/*.jpg' --csv answers.csv

      metapl predict runs/mine photos --top-k 1 --json
    """
    from metapl.cli import predict as verb

    verb.predict(args, predict)


def pseudo_label(args: Sequence[str]) -> None:
    """Write a finished run's probabilities for a folder of pictures, for metapl data select.

    RUN is the folder of a run, or of metapl fit; DIR holds pictures at any depth. Writes a .npy of float16 [pictures,
    classes], a .txt with each row's path, and a .errors.csv if pictures could not be read, whose rows are zeros. What
    was stopped or killed goes on when the same command is given again; other files are never overwritten.

    Examples:

      metapl pseudo-label runs/mine unlabeled --out probabilities.npy

      metapl data select probabilities.npy --names probabilities.txt --per-class 500 --threshold 0.3
    """
    from metapl.cli import pseudo_label as verb

    verb.pseudo_label(args, pseudo_label)


def export(args: Sequence[str]) -> None:
    """Write a finished run's network for other programs: ONNX, StableHLO, safetensors.

    The preprocessing of stored pictures and the temperature are inside: bytes go in, probabilities come out, for any
    size of batch. Each file is read back and asked about pictures; one that differs from the run is not kept. Writes
    model_card.md, too: classes, input, numbers, and the lines of code that run it.

    Examples:

      metapl export runs/mine --onnx --out exports/mine

      metapl export runs/mine --onnx --stablehlo --safetensors --check photos
    """
    from metapl.cli import export as verb
    from metapl.cli.data import folders

    verb.export(args, export, folders)


def serve(args: Sequence[str]) -> None:
    """Show a page on this machine: drop a picture, see its classes and the nearest labelled examples.

    RUN is the folder of a finished run. The page and its JSON endpoint are for this machine alone unless --host says
    otherwise; pictures are not kept. Ctrl-C stops. docs/own_pictures.md tells what the endpoint takes and gives.

    Examples:

      metapl serve runs/mine

      metapl serve runs/mine --port 0 --max-mb 5

      curl --data-binary @cat.jpg -H 'Content-Type: image/jpeg' http://127.0.0.1:8765/api/predict
    """
    from metapl.cli import serve as verb

    verb.serve(args, serve)


def report(args: Sequence[str]) -> None:
    """Write a page about runs: tables, curves, comparisons, pictures; one HTML file and Markdown.

    RUN is the folder of a run, or one with runs below it, in any state: what failed, is unfinished or misses files is
    shown as that. The page needs no network. Runs that differ in their seeds alone are one row; rows on the same data
    are compared seed by seed. docs/reports.md tells what is in it.

    Examples:

      metapl report runs/digits_mpl_small

      metapl report runs/uda runs/mpl runs/mpl_none --out reports/digits --pictures

      metapl report runs
    """
    from metapl.cli import report as verb
    from metapl.cli.data import folders

    verb.report(args, report, folders)


def watch(args: Sequence[str]) -> None:
    """Follow runs while they train: the report's page, live, on this machine.

    RUN is the folder of a run, or one with runs below it (that of metapl fit, or runs/ itself). The page changes by
    itself, and what you have opened, sorted or scrolled to stays. It ends with the run, finished, failed or killed, and
    says which; the last page stays open in the browser. For a run on another machine: ssh -L PORT:127.0.0.1:PORT there.
    docs/watching.md tells more.

    Examples:

      metapl watch runs/mine

      metapl watch runs/mine --wait --port 8766     before metapl train --out runs/mine has begun it

      metapl watch runs/mine --stay                 until Ctrl-C, also when it has ended
    """
    from metapl.cli import watch as verb

    verb.watch(args, watch)


def runs(args: Sequence[str]) -> None:
    """List runs: method, data, state, steps, accuracy.

    Looks for runs in the folders and up to four levels below them. A run is finished, running (a process works on it),
    stopped and resumable (metapl resume RUN continues it), failed, or broken: its row says which file is.

    Examples:

      metapl runs

      metapl runs runs/cifar ~/other/runs --sort accuracy

      metapl runs --json
    """
    from metapl.runs import find as verb
    from metapl.runs import no_run

    @dataclass(frozen=True)
    class Flags:
        folders: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
        """Where to look."""
        sort: verb.Sort = "changed"
        """Newest first, by name, or best first."""
        json: bool = False
        """Print JSON instead of the table."""

    flags = parse(Flags, "metapl runs", runs, args)
    found = verb.find(flags.folders, flags.sort)
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=200)  # a file or a pipe has no narrow window
    if flags.json:
        console.print(json.dumps(verb.as_json(found), indent=2), highlight=False, markup=False, soft_wrap=True)
    elif found:
        console.print(verb.table(found))
    else:
        places = " or ".join(map(str, flags.folders))
        sentence = no_run.told(flags.folders) or f"there are no runs in {places}; metapl train makes one"
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def doctor(args: Sequence[str]) -> None:
    """Look at this machine: versions, devices, flags, caches, data, disk, and one training step.

    Each line is fine, a note, or broken, with what to do about it. The step is a tiny one of MPL in a process of its
    own, compiled and run twice: its numbers must be finite and the same, bit for bit.

    Exit code 0: nothing is broken; 1: something is.

    Examples:

      metapl doctor

      metapl doctor --data-dir ~/data

      metapl doctor --json
    """
    from metapl.cli import doctor as verb

    @dataclass(frozen=True)
    class Flags:
        data_dir: Path | None = None
        """Where to look for data files, beside the per-user cache."""
        json: bool = False
        """Print JSON instead of the table."""

    flags = parse(Flags, "metapl doctor", doctor, args)
    found, console = verb.examine(flags.data_dir), Console()
    if flags.json:
        console.print(json.dumps(verb.as_json(found), indent=2), highlight=False, markup=False, soft_wrap=True)
    else:
        console.print(verb.table(found))
    if verb.is_broken(found):
        sys.exit(1)


VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "fit": fit,
    "train": train,
    "resume": resume,
    "eval": eval_run,
    "predict": predict,
    "pseudo-label": pseudo_label,
    "export": export,
    "serve": serve,
    "runs": runs,
    "report": report,
    "watch": watch,
    "doctor": doctor,
    "sweep": sweep,
    "data": data,
    "bench": bench,
    "plan": plan,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake ends with one sentence and exit code 2."""
    verb, *args = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if verb in ("-h", "--help"):
        Console().print(_overview(), highlight=False, markup=False)
    elif verb == "--version":
        Console().print(f"metapl {metapl.__version__}", highlight=False)
    else:
        try:
            if verb not in VERBS:
                raise ConfigError(f"there is no verb {verb!r}; the verbs are {', '.join(VERBS)}")
            VERBS[verb](args)
        except ConfigError as error:
            sys.exit(_fail(f"metapl: {error}"))
        except Stopped as stopped:
            sys.exit(_fail(f"metapl: {stopped}", stopped.exit_code))
        except KeyboardInterrupt:
            sys.exit(_fail("metapl: interrupted", code=130))
        except OSError as error:
            if not is_refusal(error):
                raise
            sys.exit(_fail(f"metapl: {error.filename or 'the disk'}: {reason(error)}"))


def _overview() -> str:
    lines = [metapl.__doc__ or "", "", "usage: metapl VERB [FLAGS]", ""]
    lines += [f"  {name:<14}{_first_line(verb)}" for name, verb in VERBS.items()]
    return "\n".join([*lines, "", "metapl VERB --help tells what a verb does and which flags it takes."])


def _first_line(function: Callable[..., None]) -> str:
    return (function.__doc__ or "").splitlines()[0]


def _fail(sentence: str, code: int = 2) -> int:
    Console(stderr=True).print(sentence, style="red", highlight=False, markup=False, soft_wrap=True)
    return code
