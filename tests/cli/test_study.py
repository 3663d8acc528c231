"""`metapl study`: runs what is missing, leaves finished runs alone, refuses to mix settings."""

import csv

import pytest
from rich.console import Console

from metapl.cli import main as cli
from metapl.study import read, work
from metapl.system.lock import LockedError

STUDY = """
title = "With and without"
seeds = 2
set = {"stages.0.steps" = 5, "log_every_steps" = 5}
[arms.none]
preset = "two_moons_mpl"
set = {"stages.0.method.feedback.estimator" = "none"}
[arms.mpl]
preset = "two_moons_mpl"
[[pairs]]
arm = "mpl"
control = "none"
kind = "confirmatory"
"""


def code(words: list[str]) -> int:
    """Call a verb; return its exit code."""
    try:
        cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("metapl.system.runtime.start", lambda: None)
    (tmp_path / "mine.toml").write_text(STUDY)
    return tmp_path


def test_a_study_is_run_once_and_then_only_reported(place, capsys):
    assert code(["study", "mine.toml", "--out", "out"]) == 0
    results = sorted((place / "out" / "runs").glob("*/result.json"))
    assert [path.parent.name for path in results] == ["all--mpl", "all--none"]
    text = (place / "out" / "study.md").read_text()
    assert "| all: " not in text  # one case needs no name in a comparison
    assert "mpl − none" in text
    assert (place / "out" / "study.html").is_file()
    before = [path.stat().st_mtime_ns for path in results]
    capsys.readouterr()
    assert code(["study", "mine.toml", "--out", "out"]) == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    assert "run 1 of" not in capsys.readouterr().out
    (place / "mine.toml").write_text(STUDY.replace('"stages.0.steps" = 5', '"stages.0.steps" = 6'))
    assert code(["study", "mine.toml", "--out", "out"]) == 2
    assert "other settings or seeds" in capsys.readouterr().err


def test_a_run_that_another_process_had_is_tried_again_after_the_others(tmp_path, monkeypatch):
    """That process may have been killed since; one that is still at work is left alone."""
    (tmp_path / "mine.toml").write_text(STUDY)
    study, asked = read.load(str(tmp_path / "mine.toml"), small=False), []

    def start(config, seeds, at_once, folders, out, console):
        asked.append(out.name)
        if len(asked) in (1, 3):
            raise LockedError("process 7 is at work")
        (out / "result.json").touch()

    monkeypatch.setattr(work, "start_run", start)
    work.work(study, tmp_path, [], Console(quiet=True))
    assert asked == ["all--none", "all--mpl", "all--none"]
    work.work(study, tmp_path, [], Console(quiet=True))
    assert asked[3:] == ["all--none"]


def test_without_a_name_the_studies_are_listed(capsys):
    assert code(["study"]) == 0
    assert "feedback" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing"], "neither a study"),
        (["mine.toml", "other.toml"], "one study at a time"),
        (["mine.toml", "--report-only", "--out", "empty"], "no finished run"),
    ],
)
def test_mistakes_end_in_a_sentence(place, capsys, args, words):
    assert code(["study", *args]) == 2
    assert words in capsys.readouterr().err
    assert not (place / "empty").exists()


def test_a_row_before_finetuning_comes_from_the_same_run(place):
    """Its number is that of the first stage's last evaluation."""
    (place / "mine.toml").write_text("""
seeds = 2
set = {"stages.0.steps" = 6, "stages.1.steps" = 2, "eval_every_steps" = 6, "log_every_steps" = 6}
[arms.finetuned]
preset = "digits_mpl_supervised_small"
[arms.before]
run_of = "finetuned"
after_stage = 0
""")
    assert code(["study", "mine.toml", "--out", "out"]) == 0
    folder = place / "out" / "runs" / "all--finetuned"
    with (folder / "evaluations.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["stage"] == "0"]
    assert {row["step"] for row in rows} == {"6"}
    mean = 100 * sum(float(row["test_accuracy"]) for row in rows) / len(rows)
    line = next(line for line in (place / "out" / "study.md").read_text().splitlines() if "| before |" in line)
    assert f"{mean:.2f} ±" in line
