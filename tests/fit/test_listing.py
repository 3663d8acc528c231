"""The roles of pictures, and remarks about them."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapl.data import pictures
from metapl.fit import examine as examining
from metapl.fit import listing, roles
from metapl.fit.examine import examine, read_roles, remark_on_unread
from metapl.fit.listing import Listing, make_listing
from metapl.schema import ConfigError
from tests.fit.pictures import console, save


def listing_of(place: Path) -> Listing:
    return make_listing(examine(read_roles(str(place), ()), console()), False, 0)


def test_what_is_held_out_is_not_among_the_unlabelled_pictures_either(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(20):
        picture = rng.integers(0, 256, (8, 8), np.uint8)
        save(tmp_path / "labeled" / ("cat", "dog")[number % 2] / f"{number}.png", picture)
        save(tmp_path / "unlabeled" / f"copy-{number}.png", picture)
        save(tmp_path / "unlabeled" / f"new-{number}.png", 255 - picture)
    listed = listing_of(tmp_path)
    assert all(path.name.startswith("new") for path in listed.roles["unlabeled"].images.paths)
    assert len(listed.roles["unlabeled"].images) == 20
    assert "unlabeled: 20 pictures are left out, because labeled, val or test has a copy" in listed.remarks


def test_a_picture_with_two_labels_is_a_remark(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(8):
        picture = rng.integers(0, 256, (8, 8), np.uint8)
        save(tmp_path / "labeled" / ("cat", "dog")[number % 2] / f"{number}.png", picture)
    save(tmp_path / "labeled" / "dog" / "0.png", np.asarray(Image.open(tmp_path / "labeled" / "cat" / "0.png")))
    listed = listing_of(tmp_path)
    assert "labeled: 1 picture with several labels, of which at most one can be right" in listed.remarks


def test_a_class_whose_pictures_were_all_left_out_says_why(tmp_path):
    """A list of pictures is UTF-8, and names of files may be anything."""
    rng, latin = np.random.default_rng(0), os.fsdecode(b"caf\xe9")
    for number in range(8):
        save(
            tmp_path / "labeled" / ("cat", latin)[number % 2] / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8)
        )
    with pytest.raises(
        ConfigError, match=r"no labelled .*remove the class \(labeled: 4 pictures are left out, because "
    ):
        listing_of(tmp_path)


def test_it_is_said_if_there_are_no_unlabelled_pictures(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(8):
        save(
            tmp_path / "labeled" / ("cat", "dog")[number % 2] / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8)
        )
    sentence = "there are no unlabelled pictures, so every model learns from the labelled ones alone"
    assert sentence in listing_of(tmp_path).remarks
    save(tmp_path / "unlabeled" / "one.png", rng.integers(0, 256, (8, 8), np.uint8))
    assert sentence not in listing_of(tmp_path).remarks


@pytest.mark.parametrize("part", ["test", "val"])
def test_a_class_that_is_not_in_the_test_part_is_said_not_to_be_measured(tmp_path, part):
    rng = np.random.default_rng(0)
    for number in range(8):
        name = ("cat", "dog")[number % 2]
        save(tmp_path / "labeled" / name / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8))
        save(tmp_path / part / "cat" / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8))
    listed = listing_of(tmp_path)
    assert f"1 class is not measured (no picture in the {part} part): dog" in listed.remarks


def read_back(listed: Listing, out: Path) -> dict[str, list[int]]:
    """Write the listing, read it as the runs do, and give the labels of each role."""
    listing.write(listed, out)
    config = listing.settings(out, 0)
    assert config is not None
    loaded = pictures.load(config, ())
    assert loaded.class_names == listed.class_names
    return {role: part.labels.tolist() for role, part in loaded.roles.items()}


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_the_runs_read_the_roles_that_were_written(tmp_path, kind):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 8, 8, 3), np.uint8), np.arange(40) % 2
    if kind == "npz":
        np.savez(tmp_path / "mine.npz", images=images[:30], labels=labels[:30], unlabeled=images[30:])
    else:
        for number, picture in enumerate(images):
            place = f"labeled/{labels[number]}" if number < 30 else "unlabeled"
            save(tmp_path / "mine" / place / f"{number:02}.png", picture, "RGB")
    listed = listing_of(tmp_path / ("mine.npz" if kind == "npz" else "mine"))
    counts = {role: np.bincount(part.labels + 1).tolist() for role, part in listed.roles.items()}
    assert counts == {"labeled": [0, 12, 12], "val": [], "test": [0, 3, 3], "unlabeled": [10]}
    assert read_back(listed, tmp_path) == {role: part.labels.tolist() for role, part in listed.roles.items()}
    if kind == "folder":
        assert {row.rsplit(",")[-1] for row in (tmp_path / "pictures.csv").read_text().split()[1:]} == {
            "labeled",
            "test",
            "unlabeled",
        }


def test_it_is_said_if_not_all_unlabelled_pictures_could_be_checked(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for number in range(8):
        save(
            tmp_path / "labeled" / ("cat", "dog")[number % 2] / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8)
        )
    for number in range(100):
        save(tmp_path / "unlabeled" / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8))
    source = read_roles(str(tmp_path), ())
    assert remark_on_unread(source, examine(source, console())) == ()
    monkeypatch.setattr(examining, "UNLABELED_S", 0.0)
    examined = examine(source, console())
    assert len(make_listing(examined, False, 0).roles["unlabeled"].images) == 32
    assert remark_on_unread(source, examined) == (
        "unlabeled: 32 of 100 pictures are used, drawn at random: there was no time to check the others",
    )


def test_of_a_large_test_part_some_pictures_measure_and_none_of_the_others_is_learnt_from(tmp_path, monkeypatch):
    monkeypatch.setattr(roles, "MOST_TEST", 10)
    rng = np.random.default_rng(0)
    for number in range(8):
        save(
            tmp_path / "labeled" / ("cat", "dog")[number % 2] / f"{number}.png", rng.integers(0, 256, (8, 8), np.uint8)
        )
    for number in range(30):
        picture = rng.integers(0, 256, (8, 8), np.uint8)
        save(tmp_path / "test" / ("cat", "dog")[number % 2] / f"{number}.png", picture)
        save(tmp_path / "unlabeled" / f"copy-{number}.png", picture)
        save(tmp_path / "unlabeled" / f"new-{number}.png", 255 - picture)
    listed = listing_of(tmp_path)
    assert len(listed.roles["test"].images) == 10
    assert set(listed.roles["test"].labels.tolist()) == {0, 1}
    assert all(path.name.startswith("new") for path in listed.roles["unlabeled"].images.paths)
    assert "test: 10 of 30 pictures measure the models, drawn at random" in listed.remarks
