"""`metapl VERB`: finds the verb, calls it, and turns errors into one sentence and an exit code.

A verb's module is imported only when the verb is called, so that `metapl --help` answers at once.
"""

import difflib
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence

import metapl
from metapl.cli.verbs import Verb, listing
from metapl.schema import ConfigError
from metapl.system import runtime
from metapl.system.disk import is_refusal, reason
from metapl.system.shortage import shortage
from metapl.system.signals import Stopped, keeping
from metapl.system.terminal import Terminal, discard_output, escape_what_cannot_be_shown, open_closed_streams, say

GROUPS: dict[str, dict[str, Verb]] = {
    "Start here": {
        "demo": Verb("demo:demo", "See metapl at work: fit digits, and compare the methods on TwoMoon."),
        "fit": Verb("fit:fit", "Train on your own pictures: a folder in, a model out."),
    },
    "Train and evaluate": {
        "train": Verb("train:train", "Train one method from a preset or a TOML file."),
        "resume": Verb("resume:resume", "Continue a run that was stopped or killed, to the same result."),
        "eval": Verb("eval:eval_run", "Evaluate a finished run again, on the data it was trained with."),
        "study": Verb("study:study", "Run a table of runs and compare them, seed by seed."),
        "sweep": Verb("sweep:sweep", "Tune methods fairly: equal trials, judged on validation data."),
    },
    "Use a finished run": {
        "predict": Verb("predict:predict", "Predict the classes of new pictures: a table, CSV or JSON."),
        "pseudo-label": Verb("pseudo_label:pseudo_label", "Write a run's probabilities for a folder of pictures."),
        "export": Verb("export:export", "Write a run's network as ONNX, StableHLO or safetensors."),
        "label": Verb("label:label", "Label the pictures that would help a fit most, in the browser."),
        "serve": Verb("serve:serve", "Serve a page that predicts the class of a dropped picture."),
    },
    "Look at runs": {
        "runs": Verb("runs:runs", "List runs: method, data, state, steps, accuracy."),
        "report": Verb("report:report", "Write a page about runs: tables, curves, comparisons, pictures."),
        "watch": Verb("watch:watch", "Follow runs while they train, on a page on this machine."),
    },
    "Data and machine": {
        "data": Verb("data:data", "Check data for leaks, show views, select extra pictures."),
        "doctor": Verb("doctor:doctor", "Check this machine: versions, devices, data, disk, one step."),
        "bench": Verb("bench:bench", "Measure the speed of training and inference, and the memory."),
        "plan": Verb("plan:plan", "Plan a run for hardware you don't have: memory and time."),
    },
}
VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    name: verb for group in GROUPS.values() for name, verb in group.items()
}


def main(argv: Sequence[str] | None = None) -> None:
    """Call one verb; a user's mistake ends with one sentence and exit code 2."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    open_closed_streams()
    escape_what_cannot_be_shown()
    try:
        try:
            with keeping():
                _call(*words)
        finally:
            sys.stdout.flush()  # a closed pipe or a full disk must show here, not when Python exits
    except ConfigError as error:
        sys.exit(_fail(f"metapl: {error}"))
    except Stopped as stopped:
        sys.exit(_fail(f"metapl: {stopped}", stopped.exit_code))
    except KeyboardInterrupt:
        sys.exit(_fail("metapl: interrupted", code=130))
    except BrokenPipeError:  # `metapl … | head` has read enough
        discard_output()
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if not is_refusal(error):
            _say_if_here_is_gone()
            raise
        discard_output()
        sys.exit(_fail(f"metapl: {error.filename or 'the disk'}: {reason(error)}"))
    except Exception as error:
        if not (sentence := shortage(error)):
            raise
        sys.exit(_fail(f"metapl: {sentence}"))


def _say_if_here_is_gone() -> None:
    """End with a sentence if somebody has deleted the current folder."""
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit(_fail("metapl: the current folder does not exist any more; change to another one"))


def _call(verb: str, *args: str) -> None:
    if verb in ("-h", "--help"):
        terminal = Terminal()
        say(terminal, _overview(terminal.width))
    elif verb == "--version":
        say(Terminal(), f"metapl {metapl.__version__}")
    elif verb in VERBS:
        runtime.keep_memory()  # before the verb imports libraries that start threads
        VERBS[verb](args)
    else:
        listed, close = f"the verbs are {', '.join(VERBS)}", difflib.get_close_matches(verb, VERBS, 1)
        raise ConfigError(f"there is no verb {verb!r}; {f'did you mean {close[0]}? ({listed})' if close else listed}")


def _overview(width: int) -> str:
    """Return the verbs in groups, each with one line."""
    column = max(map(len, VERBS))
    parts = [textwrap.fill(metapl.__doc__ or "", width), "usage: metapl VERB [FLAGS]"]
    for title, verbs in GROUPS.items():
        rows = {f"{name:<{column}}": verb.summary for name, verb in verbs.items()}
        parts.append(f"{title}:\n{listing(rows, width)}")
    return "\n\n".join([*parts, "metapl VERB --help explains a verb and lists its flags."])


def _fail(sentence: str, code: int = 2) -> int:
    say(Terminal(stderr=True), sentence, style="red")
    return code
