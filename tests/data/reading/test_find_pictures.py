"""Which pictures someone means: files, folders, patterns; in order, and nothing of it an error."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapl.data.reading.find_pictures import FoundPicture, find, walk


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a/1.png", "a/b/2.JPG", "a-b.png", "a.png", "a/.hidden.png", "a/.h/3.png", "a/notes.txt", "[x].png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    return tmp_path


def names(*words: str) -> list[str]:
    return [str(found.path) for found in find(words)]


def test_files_are_taken_as_they_are_named_and_folders_with_what_is_below(place):
    assert names("a/notes.txt", "a", "a.png") == ["a/notes.txt", "a/1.png", "a/b/2.JPG", "a.png"]
    assert names("a", "a") == ["a/1.png", "a/b/2.JPG"] * 2


def test_patterns_find_pictures_at_any_depth_and_each_once(place):
    assert names("a/**") == names("a/**/*") == ["a/1.png", "a/b/2.JPG"]
    assert names("**/*.JPG") == ["a/b/2.JPG"]
    assert names("a?b.png", "a*") == ["a-b.png", "a/1.png", "a/b/2.JPG", "a-b.png", "a.png"]
    assert names("a/*.txt") == ["a/notes.txt"]
    assert names("**/b") == ["a/b/2.JPG"]


def test_a_file_of_just_that_name_comes_before_a_pattern(place):
    assert names("[x].png") == ["[x].png"]


def test_what_is_not_there_is_told_in_its_place(place):
    Path("empty").mkdir()
    assert list(find(["nothere.png"])) == [FoundPicture(Path("nothere.png"))]
    assert [found.problem for found in find(["no*match", "a.png"])] == ["nothing matches this pattern", ""]
    assert "has no pictures" in next(find(["empty"])).problem


def test_links_to_folders_are_followed(place):
    for name in ("far/x/9.png", "far/y.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("a/linked").symlink_to("../far", target_is_directory=True)
    Path("a/linked.png").symlink_to("1.png")
    assert names("a") == ["a/1.png", "a/b/2.JPG", "a/linked.png", "a/linked/x/9.png", "a/linked/y.png"]
    assert list(walk(Path("a/linked"))) == [
        FoundPicture(Path("a/linked/x/9.png")),
        FoundPicture(Path("a/linked/y.png")),
    ]


def test_no_picture_is_named_twice_for_a_link(place):
    Path("far/deep").mkdir(parents=True)
    Path("far/deep/9.png").touch()
    Path("far/to_a").symlink_to("../a", target_is_directory=True)
    Path("far/to_far").symlink_to(".", target_is_directory=True)
    for name, target in {"0": "b", "again": "../far/deep", "far": "../far", "other": "../far"}.items():
        (Path("a") / name).symlink_to(target, target_is_directory=True)
    found = list(walk(Path("a")))
    assert [str(one.path) for one in found if not one.problem] == ["a/1.png", "a/again/9.png", "a/b/2.JPG"]
    assert [str(one.path) for one in found if one.problem] == ["a/far/to_a"]


@pytest.mark.parametrize("target", [".", "..", "b/.."])
def test_a_link_to_where_it_lies_is_told(place, target):
    Path("a/again").symlink_to(target, target_is_directory=True)
    assert list(find(["a"]))[1] == FoundPicture(Path("a/again"), "a link to a folder that contains it")


def test_a_link_to_nothing_is_told(place):
    Path("a/unplugged").symlink_to("/nowhere/photos")
    assert [one.problem for one in find(["a"])] == ["", "", "a link whose target does not exist"]


def test_a_folder_that_may_not_be_read_is_told(place, monkeypatch):
    real = os.scandir

    def refusing(path):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert [found for found in find(["a"]) if found.problem] == [FoundPicture(Path("a/b"), "Permission denied")]


@settings(max_examples=20, deadline=None)
@given(st.sets(st.from_regex(r"([a/.\-0]{1,3}/){0,3}[a.\-0]{1,2}\.png", fullmatch=True), min_size=1, max_size=12))
def test_the_order_is_that_of_sorting_all_paths(tmp_path_factory, texts):
    root = tmp_path_factory.mktemp("tree")
    paths = {Path(root, *(part for part in text.split("/") if part and set(part) != {"."})) for text in texts}
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    shown = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(root).parts)]
    expected = sorted(shown, key=lambda path: path.relative_to(root).as_posix())
    assert [found.path for found in walk(root)] == expected
