"""From pictures on disk up the ladder to a verdict, killed on the way; the unlabelled ones are of other classes."""

import csv
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from metapl.cli import main as cli
from metapl.evaluate import predictor
from metapl.fit import examine, fit, head_runs, label_file, ladder, network, rung
from metapl.fit.label_file import Decision
from metapl.fit.request import Request
from metapl.schema import ConfigError
from metapl.system.signals import Stopped
from tests.fit.pictures import console, save

NAMES = ("<script>alert(1)<script>", 'a "quoted", name', "it's | a pipe", "naïve 猫", "zero")
REQUEST = Request(steps=20, mirror=False, features="patches", budget="10m")


def write_digits(root: Path, labeled: int, unlabeled: str) -> None:
    """Digits 0 to 4 as five classes, grey or RGBA; of those after them, the unlabelled ones."""
    digits = load_digits()
    seen: dict[int, int] = {}
    for number, (grey, label) in enumerate(zip(digits.images, digits.target.tolist(), strict=True)):
        seen[label] = seen.get(label, 0) + 1
        picture = (grey * 15.9).astype(np.uint8)
        if label < 5 and seen[label] <= labeled:
            save(root / "labeled" / NAMES[label] / f"{number}.png", picture, "RGBA" if number % 3 else "L")
        elif str(label) in unlabeled and seen[label] <= labeled + 40:
            save(root / "unlabeled" / f"{number}.png", picture)


def said(screen: Console) -> str:
    return screen.file.getvalue()


class KilledError(Exception):
    """Stands for a power cut."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A fit that was killed before its heads, stopped by Ctrl-C before and in its network, and given again."""
    place = tmp_path_factory.mktemp("fit")
    write_digits(place / "data", 15, "56789")
    (place / "data" / "labeled" / "zero" / "broken.png").write_bytes(b"no picture")
    out, screen = place / "out", console()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.setattr(head_runs, "METHODS", ("uda",))
        patch.setattr(ladder, "own_network_rung", lambda climb: None)  # test_own_network.py has it
        with patch.context() as killing:
            killing.setattr(head_runs, "train", killed)
            with pytest.raises(KilledError):
                fit.fit(str(place / "data"), REQUEST, out, console())
        before = (out / "linear" / "weights.safetensors").stat().st_mtime_ns
        usable = predictor.load(out).class_names
        for name, stops in {"planned": interrupted, "train_rung": stopped}.items():
            with patch.context() as stopping:
                stopping.setattr(network, name, stops)
                with pytest.raises(Stopped, match=r"report\.html has the verdict on what is done so far"):
                    fit.fit(str(place / "data"), REQUEST, out, console())
            assert not json.loads((out / "verdict.json").read_text("utf-8"))["finished"]
            (out / "verdict.json").unlink()
        fit.fit(str(place / "data"), REQUEST, out, screen)
    assert usable == tuple(sorted(NAMES))  # after the kill there was a model already
    assert (out / "linear" / "weights.safetensors").stat().st_mtime_ns == before
    return out, said(screen)


def killed(*_):
    raise KilledError


def interrupted(*_):
    raise KeyboardInterrupt


def stopped(*_):
    raise Stopped("stopped by SIGINT", signal.SIGINT, "metapl resume continues")


def test_the_ladder_is_in_the_verdict_with_what_each_rung_cost(finished):
    out, text = finished
    verdict = json.loads((out / "verdict.json").read_text("utf-8"))
    names = [row["name"] for row in verdict["ladder"]]
    assert names[:5] == ["linear", "aligned", "self_training", "label_spreading", "uda"]
    assert verdict["finished"]
    assert names[-2:] == ["baseline", "network"]
    for row in verdict["ladder"]:  # a network is validated by one fold, heads by all five
        assert row["validation_pictures"] == (12 if row["kind"] == "network" else 60)
        assert row["seconds"] > 0
    assert verdict["curve"]["labels"] == [10, 15, 30, 45, 60]
    assert "a network, trained on the labels (" in text
    assert "50 more labels would add" in text
    for row in verdict["ladder"]:
        assert predictor.load(out / row["name"]).class_names == tuple(sorted(NAMES))


def test_unlabelled_pictures_of_other_classes_are_noticed_and_not_relied_on(finished):
    out, text = finished
    verdict = json.loads((out / "verdict.json").read_text("utf-8"))
    assert verdict["other_classes"]["suspected"]
    assert verdict["recommended"] == "linear"
    assert "other things than the labelled classes" in verdict["why"]
    assert "other things than the labelled classes" in text
    assert verdict["ladder"][0]["accuracy"] > 0.6


def test_what_was_held_out_is_said_and_was_trained_on_by_nobody(finished):
    out, _ = finished
    verdict = json.loads((out / "verdict.json").read_text("utf-8"))
    assert "held out" in verdict["measured_on"]
    with (out / "pictures.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    paths = {role: {row["path"] for row in rows if row["split"] == role} for role in ("labeled", "val", "test")}
    assert len(paths["test"]) == verdict["pictures"] == 15
    assert {role: len(of_role) for role, of_role in paths.items()} == {"labeled": 60, "val": 0, "test": 15}
    assert {row["label"] for row in rows if row["split"] == "test"} == set(NAMES)
    assert any("broken.png" in remark for remark in verdict["remarks"])


def test_the_rung_predicts_for_pictures_what_it_was_judged_by(finished):
    out, _ = finished
    model = predictor.load(out / "uda")
    with (out / "pictures.csv").open(newline="", encoding="utf-8") as file:
        test = [row["path"] for row in csv.DictReader(file) if row["split"] == "test"]
    judged = rung.read(out, "uda").predictions.test
    predicted = model.probabilities(np.stack([model.read(Path(path)) for path in test]))
    np.testing.assert_allclose(predicted, np.exp(judged), atol=0.01)


def test_the_folder_answers_about_pictures_by_the_names_of_the_classes(finished):
    out, _ = finished
    model = predictor.load(out)
    noted = json.loads((out / "model.json").read_text("utf-8"))
    assert (noted["run"], noted["format"]) == ("linear", 1)
    assert model.temperature == noted["temperature"]
    assert model.class_names == tuple(sorted(NAMES))
    picture = next((out.parent / "data" / "labeled" / "zero").glob("[0-9]*.png"))
    assert model.probabilities(model.read(picture)[None]).sum() == pytest.approx(1, abs=1e-5)


def test_the_exported_model_gives_the_answers_that_predict_gives(finished, tmp_path, capsys):
    out, _ = finished
    pictures, answers = str(out.parent / "data" / "unlabeled"), tmp_path / "answers.csv"
    cli.main(["predict", str(out), pictures, "--csv", str(answers)])
    cli.main(["export", str(out), "--onnx", "--check", pictures, "--out", str(tmp_path / "export")])
    capsys.readouterr()
    with answers.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    model = predictor.load(out)
    session = onnxruntime.InferenceSession(tmp_path / "export" / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"pictures": np.stack([model.read(Path(row["path"])) for row in rows])})
    assert f"trained with {model.rung}\n" in (tmp_path / "export" / "model_card.md").read_text("utf-8")
    assert model.rung == json.loads((out / "verdict.json").read_text("utf-8"))["title"]
    assert len(rows) == 275
    assert [sorted(NAMES)[best] for best in found.argmax(-1)] == [row["class"] for row in rows]
    np.testing.assert_allclose(found.max(-1), [float(row["probability"]) for row in rows], atol=1e-3)


def test_names_stay_names_in_every_file(finished):
    out, _ = finished
    page = (out / "verdict.md").read_text("utf-8")
    assert "<script>" not in page
    assert NAMES[0] not in (out / "report.html").read_text("utf-8")
    assert "&#60;script&#62;" in page or NAMES[0] not in (out / "verdict.json").read_text("utf-8")
    with (out / "label_next.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 50
    assert {row["prediction"] for row in rows} <= set(NAMES)
    assert all(Path(row["path"]).is_file() and "unlabeled" in row["path"] for row in rows)


def test_a_finished_fit_is_shown_again_and_another_request_is_refused(finished):
    out, _ = finished
    screen = console()
    fit.fit(str(out.parent / "data"), REQUEST, out, screen)
    assert "finished" in said(screen)
    assert "Use logistic regression on the labels" in said(screen)
    with pytest.raises(ConfigError, match="steps was 20, is 21"):
        fit.fit(str(out.parent / "data"), replace(REQUEST, steps=21), out, console())


def test_a_kill_in_the_first_moment_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    write_digits(tmp_path / "data", 6, "")
    data, out = str(tmp_path / "data"), tmp_path / "out"

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", killed)
        with pytest.raises(KilledError):
            fit.fit(data, REQUEST, out, console())
    assert [path.name for path in out.iterdir()] == ["fit.json.new"]
    monkeypatch.setattr(fit, "_write_data", killed)
    with pytest.raises(KilledError):
        fit.fit(data, REQUEST, out, console())
    assert sorted(path.name for path in out.iterdir()) == ["fit.json", "lock", "sessions.json"]


def test_pictures_that_changed_since_the_fit_began_are_refused(finished, tmp_path, monkeypatch):
    """Its rungs have learnt the old ones; the size and the time of the file are as before."""
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    longer = replace(REQUEST, budget="1h")
    data = finished[0].parent / "data"
    one, other = sorted((data / "labeled").rglob("*.png"))[:2]
    before, stat = one.read_bytes(), one.stat()
    try:
        one.write_bytes(other.read_bytes())
        os.utime(one, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with pytest.raises(ConfigError, match=r"a picture is not what it was; .* choose another --out"):
            fit.fit(str(data), longer, out, console())
        one.unlink()
        with pytest.raises(ConfigError, match=r"there is no file .* choose another --out"):
            fit.fit(str(data), longer, out, console())
    finally:
        one.write_bytes(before)


def test_pictures_of_other_types_are_named(tmp_path):
    (tmp_path / "unlabeled").mkdir()
    for name in ("a.HEIC", "b.heic", "c.svg", "d.txt"):
        (tmp_path / "unlabeled" / name).touch()
    assert examine.remark_on_other_files(str(tmp_path)) == (
        "files of these types are not read: 2 .heic, 1 .svg; convert them to JPEG or PNG",
    )
    assert examine.remark_on_other_files(str(tmp_path / "pictures.csv")) == ()


def test_one_class_is_refused_before_anything_is_written(tmp_path):
    save(tmp_path / "data" / "labeled" / "only" / "1.png", np.zeros((8, 8), np.uint8))
    with pytest.raises(ConfigError, match="only one class"):
        fit.fit(str(tmp_path / "data"), REQUEST, tmp_path / "out", console())
    assert not list((tmp_path / "out").iterdir())


def test_weights_that_cannot_be_started_from_are_refused_before_anything_is_written(tmp_path):
    for name in ("cat", "dog"):
        for i in range(4):
            save(tmp_path / "data" / "labeled" / name / f"{i}.png", np.full((8, 8), 9 * i + len(name), np.uint8))
    with pytest.raises(ConfigError, match="is not a file"):
        fit.fit(str(tmp_path / "data"), Request(steps=1, init_from="missing"), tmp_path / "out", console())
    assert not list((tmp_path / "out").iterdir())


def test_copies_in_the_test_part_are_refused_unless_allowed(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        for i in range(4):
            save(tmp_path / "data" / "labeled" / name / f"{i}.png", rng.integers(0, 256, (8, 8), np.uint8))
        copy = Image.open(tmp_path / "data" / "labeled" / name / "0.png")
        save(tmp_path / "data" / "test" / name / "copy.png", np.asarray(copy))
    with pytest.raises(ConfigError, match=r"2 labelled pictures are also in val or test.*--allow-duplicates"):
        fit.fit(str(tmp_path / "data"), REQUEST, tmp_path / "out", console())


def test_a_fit_after_another_uses_its_new_labels_and_shows_both(finished, tmp_path, monkeypatch):
    out, _ = finished
    monkeypatch.setenv("XDG_CACHE_HOME", str(out.parent / "cache"))
    monkeypatch.setattr(head_runs, "METHODS", ())
    monkeypatch.setattr(ladder, "own_network_rung", lambda climb: None)
    asked = json.loads((out / "verdict.json").read_text())["label_next"]
    for row, decision in zip(asked, (Decision("zero", "label"), Decision("", "none_of_these")), strict=False):
        label_file.add(tmp_path / "labels.csv", row["path"], decision)
    shutil.copytree(out, tmp_path / "first")
    (tmp_path / "labels.csv").rename(tmp_path / "first" / "labels.csv")
    fit.fit(str(out.parent / "data"), replace(REQUEST, after=str(tmp_path / "first")), tmp_path / "second", console())
    before, verdict = (json.loads((tmp_path / name / "verdict.json").read_text()) for name in ("first", "second"))
    assert verdict["labels"] == before["labels"] + 1
    assert [point["labels"] for point in verdict["history"]] == [before["labels"]]
    assert held_out(tmp_path / "first") == held_out(tmp_path / "second")
    assert "Test accuracy over rounds of labelling" in (tmp_path / "second" / "report.html").read_text()


def held_out(folder: Path) -> set[str]:
    with (folder / "pictures.csv").open(newline="") as file:
        return {row["path"] for row in csv.DictReader(file) if row["split"] == "test"}
