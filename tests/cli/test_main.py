"""The command line as a new user meets it."""

import errno
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from metapl import config as configs
from metapl.cli import data
from metapl.cli import main as cli
from tests.exit_code import exit_code

LOOKING = ("plan", "runs", "doctor", "predict", "serve")  # verbs that make no folder


def run(capsys, *args: str) -> tuple[int, str, str]:
    """Exit code, output and error output of one call."""
    code = exit_code(*args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
def test_help_names_every_verb_with_a_sentence(capsys, args):
    code, out, _ = run(capsys, *args)
    assert code == 0
    for title, verbs in cli.GROUPS.items():
        assert f"\n{title}:\n" in out
        for name, verb in verbs.items():
            assert f"  {name} " in out
            assert verb.summary in " ".join(out.split())


@pytest.mark.parametrize(
    "verb", [*(verb for group in cli.GROUPS.values() for verb in group.values()), *data.VERBS.values()]
)
def test_a_verbs_line_in_the_list_is_the_first_of_its_help(verb):
    assert verb.load().__doc__.splitlines()[0] == verb.summary


@pytest.mark.parametrize("words", [["--help"], ["data", "--help"], ["train", "--help"]])
def test_lines_that_wrap_are_indented(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = run(capsys, *words)
    lines = out[: out.find("Presets")].splitlines()
    commands = [line for line in lines if line.startswith("  metapl")]
    assert all(len(line) <= 60 for line in lines if line not in commands and not line.startswith("usage:"))
    if words == ["--help"]:
        start = lines.index("  demo          See metapl at work: fit digits, and compare")
        assert lines[start + 1] == "                the methods on TwoMoon."


def test_help_starts_fast_and_loads_neither_tyro_nor_jax():
    code = (
        "import sys; from metapl.cli.main import main; main(['-h']); sys.exit(bool({'tyro', 'jax'} & {*sys.modules}))"
    )
    before = os.times()
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
    after = os.times()
    taken_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert taken_s < 0.5  # processor time, which a busy machine changes little; on an idle one about 0.15 s


@pytest.mark.parametrize("words", [["--help"], ["resume", "--help"], ["train", "--help"], ["runs", ".", "--json"]])
def test_a_closed_pipe_is_no_error(tmp_path, words):
    """As in `metapl resume --help | head`, when head has already gone."""
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "metapl", *words]
        done = subprocess.run(command, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error_and_no_other_file_takes_their_place(tmp_path, closed):
    """As in `metapl train … >&- 2>&-`: what a library prints must not end up in a file that was opened later."""
    (tmp_path / "a.py").write_text(
        "import os\nfrom metapl.cli.main import main\nmain(['--version'])\nopened = open('mine', 'w')\n"
        "assert opened.fileno() > 2\nos.write(1, b'x')\nos.write(2, b'x')"
    )
    command = ["sh", "-c", f'exec "$0" a.py {closed}', sys.executable]
    done = subprocess.run(command, cwd=tmp_path, check=False)
    assert (done.returncode, (tmp_path / "mine").read_text()) == (0, "")


@pytest.mark.parametrize(
    ("encoding", "words", "code", "printed"),
    [
        ("ascii", ["train", "--help"], 0, b"[--SETTING VALUE \\u2026]"),
        ("latin-1", ["runs", "\u732b"], 2, b"\\u732b is not a folder"),
        ("utf-8:strict", ["runs", b"caf\xe9"], 2, b"caf\\udce9 is not a folder"),
    ],
)
def test_what_a_terminal_cannot_show_is_escaped(tmp_path, encoding, words, code, printed):
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "metapl", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
    assert printed in done.stdout + done.stderr


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verbs_help_teaches(capsys, verb):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert f"usage: metapl {verb}" in out
    assert "Examples:" in out
    assert ("--out" in out) == (verb not in LOOKING)


def test_the_help_of_train_lists_every_preset_once_in_groups(capsys):
    _, out, _ = run(capsys, "train", "--help")
    lines = out[out.index("Presets") :].splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == list(configs.presets())
    first = lines.index("")  # an empty line stands before each group
    assert len({line.split("_")[0] for line in lines[first:] if line}) == lines[first:].count("")


def test_a_presets_help_lists_its_settings_with_their_values(capsys):
    code, out, _ = run(capsys, "train", "two_moons_uda", "--help")
    assert code == 0
    for flag in ("--seed", "--augmentation.jitter", "--stages.0.method.consistency.temperature", "--out"):
        assert flag in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["dmeo"], "there is no verb 'dmeo'; did you mean demo? (the verbs are demo, fit, train, resume, eval, "),
        (["xyzzy"], "there is no verb 'xyzzy'; the verbs are demo"),
        (["demo", "--dataset", "3"], "Unrecognized options: --dataset, 3; did you mean --datasets?"),
        (["demo", "--datasets", "many"], "--datasets takes a whole number, got 'many'"),
        (["demo", "--datasets"], "Missing value for argument '--datasets'"),
        (["train", "two_moons_mpl", "--data.noise", "x"], "--data.noise takes a number, got 'x'"),
        (["data", "check"], "Missing from metapl data check"),
        (["demo", "--datasets", "0"], "datasets takes a number of at least 1, got 0"),
        (["demo", "--steps", "-5"], "steps takes a number of at least 0, got -5"),
        (["train", "two_moons_mpl", "--seeds", "0"], "seeds takes a number of at least 1, got 0"),
        (["train", "two_moons_mpl", "--seeds", "3000000000"], "seeds takes a number of at most 10000, got 3000000000"),
        (
            ["train", "two_moons_mpl", "--seeds-at-once", "0"],
            "seeds_at_once takes auto or a number of at least 1, got 0",
        ),
        (["train", "two_moons_mpl", "--seeds-at-once", "x"], "--seeds-at-once takes INT|{auto}, got 'x' ("),
        (["data", "chekc"], "there is no verb 'chekc' of data; the verbs are check, show, select"),
        (["data", "check", "digitz"], "'digitz' is not there: expected a folder"),
        (["data", "show", "cifar10@45#0", "--data-dir", "."], "cifar10: no cifar-10-batches-py"),
        (["demo", "--seed", "4294967290", "--datasets", "20"], "the last data set's seed would be"),
        (["data", "select", "p.csv", "--near", "99"], "p.csv"),
        (["bench"], "bench takes a network (mlp"),
        (["bench", "mlpp"], "'mlpp' is neither a network (mlp"),
        (["bench", "mlp", "mplx"], "'mplx' is not a method; the methods are supervised, uda, fixmatch"),
        (["bench", "mlp", "mpl", "twice"], "bench takes a network"),
        (["bench", "mlp", "--batch", "0"], "batch takes whole numbers of at least 1, got (0,)"),
        (["bench", "mlp", "--repeats", "0"], "repeats takes a number of at least 1, got 0"),
        (["eval"], "Missing from metapl eval"),
        (["eval", "nowhere"], "nowhere is not the folder of a run"),
        (["eval", ".", "--part", "train"], "train"),
        (["eval", "."], ". is not the folder of a run: it has no config.toml"),
        (["runs"], "runs is not a folder"),
        (["runs", ".", "--sort", "size"], "size"),
        (["train"], "train needs a preset or a TOML file first; metapl train --help lists the presets"),
        (["train", "nowhere.toml"], "is neither a preset"),
        (["train", "two_moons_mpl", "--data.noise", "-1"], "data.noise takes a number of at least 0, got -1.0"),
        (["train", "two_moons_mpl", "--stages.0.method.feedback.estimator", "dott"], "dott"),
        (["train", "two_moons_mpl", "--stages.0.method.labels", "x"], "labels"),
    ],
)
def test_a_mistake_ends_with_a_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *args)
    assert code == 2
    assert words in " ".join(err.split())
    assert err.startswith("metapl: ")  # a sentence, no box and no traceback
    assert "─" not in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_a_disk_that_takes_no_more_is_a_sentence_whatever_the_verb(capsys, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device", "there/x")

    monkeypatch.setitem(cli.VERBS, "doctor", full)
    assert run(capsys, "doctor") == (2, "", "metapl: there/x: No space left on device\n")

    def locked_up(_):
        raise PermissionError(errno.EACCES, "Permission denied", "there/x")

    monkeypatch.setitem(cli.VERBS, "doctor", locked_up)
    assert run(capsys, "doctor") == (2, "", "metapl: there/x: Permission denied\n")

    def too_much(_):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setitem(cli.VERBS, "doctor", too_much)
    code, _, err = run(capsys, "doctor")
    assert (code, err.count("\n")) == (2, 1)
    assert "not enough memory (Unable to allocate 3 TiB); smaller batches" in err

    def missing(_):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "there/x")

    monkeypatch.setitem(cli.VERBS, "doctor", missing)
    with pytest.raises(FileNotFoundError):
        run(capsys, "doctor")


def test_a_current_folder_that_is_gone_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setitem(cli.VERBS, "doctor", lambda _: os.getcwd())
    assert run(capsys, "doctor") == (
        2,
        "",
        "metapl: the current folder does not exist any more; change to another one\n",
    )


def test_an_occupied_folder_is_left_alone(capsys, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    for verb in (["demo"], ["train", "two_moons_mpl"]):
        code, _, err = run(capsys, *verb, "--out", str(tmp_path))
        assert code == 2
        assert "is not empty" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_train_writes_the_settings_it_used_and_the_result(tmp_path):
    """In a process of its own, as a user starts it; flags win over the file, the file over its preset."""
    (tmp_path / "my.toml").write_text('preset = "two_moons_mpl"\nseed = 3\n[data]\nnoise = 0.05\n')
    flags = ["--seed", "4", "--seeds", "2", "--stages.0.steps", "30", "--out", "run"]
    command = [sys.executable, "-m", "metapl", "train", "my.toml", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = configs.parse((tmp_path / "run" / "config.toml").read_text(), "run")
    assert (config.seed, config.data.noise, config.stages[0].steps) == (4, 0.05, 30)
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["stages"][0]["method"]["name"] == "mpl"
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["steps"] == 30
    assert list(result["accuracies"]) == ["4", "5"]
    assert result["accuracy"] == pytest.approx(sum(result["accuracies"].values()) / 2)
    assert "accuracy" in done.stdout


def test_the_default_folder_moves_on_when_it_is_taken(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    seen = []
    monkeypatch.setattr(
        "metapl.cli.train.start_run",
        lambda config, seeds, at_once, folders, out, console: (out / "x").touch() or seen.append(out),
    )
    for _ in range(2):
        assert run(capsys, "train", "two_moons_mpl")[0] == 0
    assert seen == [Path("runs/two_moons_mpl"), Path("runs/two_moons_mpl-2")]


def test_a_run_that_diverges_is_no_result(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    flags = [
        "--stages.0.method.optimizer.learning-rate",
        "1e38",
        "--stages.0.steps",
        "20",
        "--out",
        str(tmp_path / "r"),
    ]
    code, _, err = run(capsys, "train", "two_moons_supervised", *flags)
    assert code == 2
    said = " ".join(err.split())
    assert "diverged between steps 1 and 20 of stages.0: the network's numbers are not finite from step" in said
    assert "There is no earlier checkpoint" in said
    assert not (tmp_path / "r" / "result.json").exists()


def test_names_that_look_like_markup_are_shown_as_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    code, out, _ = run(
        capsys, "train", "two_moons_supervised", "--stages.0.steps", "5", "--out", str(tmp_path / "w[red]z[/b]")
    )
    assert code == 0
    assert "w[red]z[/b]" in out


def test_a_name_is_one_word_in_a_sentence_however_long_it_is(capsys, tmp_path):
    """Someone may copy it: it is neither taken for markup nor cut at the width of a window."""
    long = tmp_path / ("x" * 100 + "[red]")
    long.mkdir()
    assert str(long) in run(capsys, "runs", str(long))[1]
    assert str(long) in run(capsys, "eval", str(long))[2]
