"""The verbs of `metapl data`: files, exit codes, and sentences for mistakes."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metapl.cli.data_check import check
from metapl.cli.data_select import DataSelectFlags, select
from metapl.data import open_source
from metapl.data.sources import svhn
from metapl.data.sources.npz import Npz
from metapl.data.sources.source import Source
from metapl.data.sources.svhn import Svhn
from metapl.schema import ConfigError
from tests.data.pictures import in_memory, source

SOURCES = {
    "clean": source(train=in_memory("x", [1, 2, 3], [0, 1, 2]), test=in_memory("y", [4, 5, 6], [0, 1, 2])),
    "leaky": source(unlabeled=in_memory("u", [1, 2, 3, 4]), test=in_memory("t", [3], [0])),
}


@pytest.fixture(autouse=True)
def known_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def settings_of(spec: str) -> Npz:
        if spec not in SOURCES:
            raise ConfigError(f"no source {spec}")
        return Npz(file=spec)

    monkeypatch.setattr(open_source, "settings_of", settings_of)
    monkeypatch.setattr(open_source, "open_settings", lambda config, _: SOURCES[config.file])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def probabilities(tmp_path: Path) -> Path:
    np.save(tmp_path / "p.npy", np.array([[0.2, 0.8], [0.9, 0.1], [1.0, 0.0], [0.6, 0.4]], np.float32))
    return tmp_path / "p.npy"


def rows_in(path: Path) -> list[int]:
    return [int(row["row"]) for row in csv.DictReader(path.read_text().splitlines())]


def test_check_of_a_clean_source(capsys: pytest.CaptureFixture[str]) -> None:
    check(["clean", "--out", "audit"])
    assert json.loads(Path("audit/audit.json").read_text())["findings"] == []
    assert "no problems, nothing to note" in capsys.readouterr().out


def test_check_of_a_leaky_source_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        check(["leaky"])
    assert stopped.value.code == 1
    assert Path("runs/check/audit.json").is_file()
    assert "test: 1 picture has a copy in unlabeled with equal pixels (a leak)" in capsys.readouterr().out


def test_select_keeps_the_best(probabilities: Path) -> None:
    select([str(probabilities), "--per-class", "1", "--out", "out"])
    assert rows_in(Path("out/selection.csv")) == [0, 2]


@pytest.mark.parametrize("as_files", [True, False])
def test_select_leaves_out_what_is_tested_on(probabilities: Path, as_files: bool) -> None:
    """Row 2 is the best of class 0, and the test picture; from a source, and from the hashes that check wrote."""
    spec = "leaky"
    if as_files:
        with pytest.raises(SystemExit):
            check(["leaky", "--out", "audit"])
        spec = "audit/hashes.npz"
    chosen = ["--per-class", "1", "--pictures", spec, "--leave-out", spec]
    select([str(probabilities), *chosen, "--out", "out"])
    assert rows_in(Path("out/selection.csv")) == [0, 1]
    assert json.loads(Path("out/summary.json").read_text())["left_out"]["look_alike_in_val_or_test"] == 1
    assert "no look-alike in val or test" in Path("out/audit.csv").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pictures", "leaky"], "belong together"),
        (["--leave-out", "leaky"], "belong together"),
        (["--pictures", "leaky", "--leave-out", "leaky", "--near", "8"], "--near takes 0 to 7, got 8"),
        (["--pictures", "leaky", "--part", "extra", "--leave-out", "leaky"], "no part 'extra'; it has unlabeled, test"),
        (
            ["--pictures", "clean", "--part", "train", "--leave-out", "clean"],
            "3 pictures in train, but there are 4 rows",
        ),
        (["--pictures", "none/hashes.npz", "--leave-out", "clean"], "not a hashes.npz"),
        (["--pictures", "nowhere", "--leave-out", "clean"], "no source nowhere"),
        (["--names", "none.txt"], "is not a file"),
        (["--threshold", "2"], "threshold takes a number of at most 1"),
    ],
)
def test_mistakes_are_sentences(probabilities: Path, flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select([str(probabilities), *flags])
    assert not Path("runs").exists()


def test_names_of_other_pictures_are_refused(probabilities: Path) -> None:
    Path("names.txt").write_text("a\nb\n")
    with pytest.raises(ConfigError, match="has 2 lines, but there are 4 rows"):
        select([str(probabilities), "--names", "names.txt"])


@pytest.mark.parametrize("verb", [check, select])
def test_help_has_examples(verb: Callable[[list[str]], None], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        verb(["--help"])
    assert stopped.value.code == 0
    assert "Examples:" in capsys.readouterr().out


def test_select_looks_for_look_alikes_within_6_bits() -> None:
    """Of 500 planted copies, 6 bits found 495 and 4 bits 451 (docs/data.md)."""
    assert DataSelectFlags(Path("p.npy")).near == 6


def test_the_settings_of_a_source_are_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_settings(config: Svhn, _: object) -> Source:
        opened.append(config)
        return SOURCES["clean"]

    monkeypatch.setattr(open_source, "settings_of", lambda _: Svhn())
    monkeypatch.setattr(open_source, "open_settings", open_settings)
    check(["svhn", "--data.no-extra", "--out", "without"])
    check(["--out", "with", "svhn"])
    assert opened == [Svhn(extra=False), Svhn()]


def test_the_advice_about_missing_files_of_svhn_can_be_followed(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}_32x32.mat").touch()
    with pytest.raises(ConfigError, match=r"no extra_32x32\.mat \(or go without: --data\.no-extra"):
        svhn.read(Svhn(), [tmp_path])
    with pytest.raises(ConfigError, match=r"train_32x32\.mat is empty"):
        svhn.read(Svhn(extra=False), [tmp_path])
