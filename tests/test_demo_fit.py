"""The demo's pictures, and what `metapl demo` does with them."""

from metapl import demo, demo_fit
from metapl.cli import main as cli


def test_digits_lie_in_folders_as_a_user_has_them(tmp_path):
    demo_fit.write_digits(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labeled", "test", "unlabeled"]
    assert {len(list((tmp_path / "labeled" / str(label)).iterdir())) for label in range(10)} == {demo_fit.LABELED}
    assert {len(list((tmp_path / "test" / str(label)).iterdir())) for label in range(10)} == {demo_fit.TEST}
    assert len(list((tmp_path / "unlabeled").iterdir())) == 1797 - 10 * (demo_fit.LABELED + demo_fit.TEST)


def test_each_part_has_digits_by_all_writers(tmp_path):
    """The digits of scikit-learn are in the order of their writers."""
    demo_fit.write_digits(tmp_path)
    numbers = [int(path.stem) for path in (tmp_path / "labeled").rglob("*.png")]
    assert min(numbers) < 300
    assert max(numbers) > 1500


def test_the_demo_fits_pictures_first_and_names_the_page(tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("metapl.system.runtime.start", lambda **_: None)
    monkeypatch.setattr(demo_fit, "fit", lambda data, request, out, console: calls.append((data, request.budget, out)))
    monkeypatch.setattr(demo.Training, "_train", lambda training, name: None)
    monkeypatch.setattr(demo, "compare", lambda settings, out, console, begun: calls.append(settings.datasets))
    cli.main(["demo", "--datasets", "3", "--out", str(tmp_path / "a")])
    assert calls == [(str(tmp_path / "a" / "pictures"), demo_fit.BUDGET, tmp_path / "a" / "fit"), 3]
    assert (tmp_path / "a" / "fit" / "report.html").as_uri() in capsys.readouterr().out.replace("\n", "")
    cli.main(["demo", "--no-pictures", "--datasets", "3", "--out", str(tmp_path / "b")])
    assert calls[2:] == [3]
