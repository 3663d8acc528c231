"""Folders of pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapl.data.reading.decode import DataError
from metapl.data.sources.folder import Folder, read
from metapl.data.sources.source import BadImage, Files, Source

SUFFIXES = ("jpg", "JPEG", "png", "bmp", "gif", "webp", "tif", "tiff", "ppm")


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (9, 9, 9)).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, suffix in enumerate(SUFFIXES):
        picture(tmp_path / "labeled" / ("zebra" if number % 2 else "ant") / f"{number}.{suffix}")
    for name in (
        "unlabeled/b.png",
        "unlabeled/a/deep/c.png",
        "val/zebra/v.png",
        "test/ant/x/t.png",
        "test/zebra/u.png",
    ):
        picture(tmp_path / name)
    return tmp_path


def names(source: Source, part: str) -> list[str]:
    images = source.parts[part].images
    assert isinstance(images, Files)
    return [path.relative_to(images.root).as_posix() for path in images.paths]


def test_every_part_and_every_type(root: Path) -> None:
    source = read(Folder(), [root])
    assert source.class_names == ("ant", "zebra")
    assert names(source, "train") == [
        *[f"labeled/ant/{i}.{SUFFIXES[i]}" for i in range(0, 9, 2)],
        *[f"labeled/zebra/{i}.{SUFFIXES[i]}" for i in range(1, 9, 2)],
    ]
    assert source.parts["train"].labels.tolist() == [0] * 5 + [1] * 4
    assert names(source, "unlabeled") == ["unlabeled/a/deep/c.png", "unlabeled/b.png"]
    assert source.parts["unlabeled"].labels.tolist() == [-1, -1]
    assert names(source, "val") == ["val/zebra/v.png"]
    assert source.parts["val"].labels.tolist() == [1]
    assert source.parts["test"].labels.tolist() == [0, 1]
    for part in source.parts.values():
        for i in range(len(part.images)):
            assert part.images[i].shape == (3, 4, 3)


def test_without_a_path_the_first_folder_that_has_labelled_pictures_is_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    assert names(read(Folder(), [tmp_path / "cache", root]), "val") == ["val/zebra/v.png"]
    with pytest.raises(DataError, match="cache has no folder labeled"):
        read(Folder(), [tmp_path / "cache", tmp_path / "nowhere"])


def test_hidden_files_and_other_types_are_ignored(root: Path) -> None:
    before = names(read(Folder(), [root]), "train"), names(read(Folder(), [root]), "unlabeled")
    picture(root / "labeled" / "ant" / ".hidden.png")
    picture(root / "labeled" / ".cache" / "a.png")
    picture(root / "unlabeled" / ".trash" / "a.png")
    (root / "labeled" / "ant" / "notes.txt").write_text("x")
    (root / "labeled" / ".DS_Store").write_text("x")
    source = read(Folder(), [root])
    assert (names(source, "train"), names(source, "unlabeled")) == before
    assert source.class_names == ("ant", "zebra")


def test_other_names_and_a_path_of_its_own(root: Path) -> None:
    (root / "labeled").rename(root / "train")
    source = read(Folder(path=str(root), labeled="train", unlabeled="none", test="val", val="none"), [])
    assert set(source.parts) == {"train", "test"}
    assert np.all(source.parts["test"].labels == 1)


def test_unknown_classes_are_named(root: Path) -> None:
    picture(root / "test" / "wolf" / "a.png")
    picture(root / "test" / "bear" / "a.png")
    with pytest.raises(DataError, match=r"test has classes .* bear, wolf"):
        read(Folder(), [root])


def test_what_is_missing_is_told(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(DataError, match="has no folder labeled"):
        read(Folder(), [tmp_path_factory.mktemp("none")])
    classes = tmp_path_factory.mktemp("classes")
    for name in ("ant", "val", "zebra"):
        (classes / name).mkdir()
    with pytest.raises(DataError, match=r"if ant, zebra are the classes, move them into .*classes0/labeled"):
        read(Folder(path=str(classes)), [])
    (root / "labeled" / "newt").mkdir()
    with pytest.raises(DataError, match="no picture in: newt"):
        read(Folder(), [root])
    (root / "labeled" / "newt").rmdir()
    picture(root / "labeled" / "stray.png")
    with pytest.raises(DataError, match=r"stray\.png is beside the class folders"):
        read(Folder(), [root])


def test_a_class_may_be_a_link_but_not_to_where_it_lies(root: Path) -> None:
    (root / "zebra").mkdir()
    picture(root / "zebra" / "elsewhere.png")
    (root / "labeled" / "linked").symlink_to(root / "zebra")
    assert "linked" in read(Folder(), [root]).class_names
    for above in ("..", "."):
        (root / "labeled" / "linked").unlink()
        (root / "labeled" / "linked").symlink_to(above)
        with pytest.raises(DataError, match="linked is a link to a folder that contains it"):
            read(Folder(), [root])


def test_linked_folders_count_and_none_is_left_out_unseen(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    far = tmp_path_factory.mktemp("far")
    picture(far / "x" / "1.png")
    (root / "unlabeled" / "z").symlink_to(far)
    (root / "labeled" / "ant" / "more").symlink_to(far / "x")
    source = read(Folder(), [root])
    assert names(source, "unlabeled")[-1] == "unlabeled/z/x/1.png"
    assert names(source, "train")[5] == "labeled/ant/more/1.png"
    for target, said in ((far / "gone", "whose target does not exist"), (root, "to a folder that contains it")):
        (root / "unlabeled" / "z").unlink()
        (root / "unlabeled" / "z").symlink_to(target)
        with pytest.raises(DataError, match=rf"unlabeled/z: a link {said}; fix or remove it"):
            read(Folder(), [root])


def test_a_bad_file_does_not_stop_the_listing(root: Path) -> None:
    (root / "unlabeled" / "a.jpg").touch()
    source = read(Folder(), [root])
    assert names(source, "unlabeled")[0] == "unlabeled/a.jpg"
    with pytest.raises(BadImage, match=r"a\.jpg: the file is empty"):
        source.parts["unlabeled"].images[0]
