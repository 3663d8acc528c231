"""Pictures listed in a CSV file, and paths that would leave its folder."""

from pathlib import Path

import pytest
from PIL import Image

from metapl.data.reading.decode import DataError
from metapl.data.sources.csv_list import CsvList, read
from metapl.data.sources.source import Source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for path in (inside / "a.png", inside / "sub" / "b.png", inside / "c, d.png", tmp_path / "secret.png"):
        Image.new("RGB", (4, 3)).save(path)
    return inside


def load(folder: Path, text: str, **settings: object) -> Source:
    (folder / "pictures.csv").write_text(text, encoding="utf-8")
    return read(CsvList(**settings), [folder])


def test_labels_and_no_labels(folder: Path) -> None:
    source = load(folder, '\ufeffpath,label\na.png,dog\nsub/b.png,\n"c, d.png",cat\n')
    assert source.class_names == ("cat", "dog")
    assert source.parts["train"].labels.tolist() == [1, 0]
    assert source.parts["unlabeled"].labels.tolist() == [-1]
    assert source.parts["unlabeled"].images.name(0) == str(folder / "sub" / "b.png")
    assert source.parts["train"].images[1].shape == (3, 4, 3)


@pytest.mark.parametrize("labeled", ["labeled", "train"])
def test_a_split_column(folder: Path, labeled: str) -> None:
    rows = [f"dog,{labeled},a.png,1", "dog,test,sub/b.png,2", "dog,val,a.png,3", "cat,,a.png,4", "x,unlabeled,a.png,5"]
    source = load(folder, "\n".join(["label,split,path,more", *rows]))
    assert {name: part.labels.tolist() for name, part in source.parts.items()} == {
        "train": [1, 0],
        "val": [1],
        "test": [1],
        "unlabeled": [-1],
    }
    assert source.class_names == ("cat", "dog")


@pytest.mark.parametrize(
    "path", ["../secret.png", "sub/../../secret.png", "{absolute}", "link.png", "linked/secret.png"]
)
def test_paths_that_leave_the_folder_are_refused_by_name(folder: Path, path: str) -> None:
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "linked").symlink_to(folder.parent)
    path = path.format(absolute=folder.parent / "secret.png")
    text = f"path,label\na.png,dog\n{path},dog\n"
    with pytest.raises(DataError, match=f"line 3: {path} leaves the folder"):
        load(folder, text)
    assert load(folder, text, outside=True).parts["train"].images[1].shape == (3, 4, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "header line"),
        ("a.png,dog\n", "header line that has path and label, got 'a.png,dog'"),
        ("path,label\ngone.png,dog\n", r"line 2: there is no file gone\.png"),
        ("path,label\nsub,dog\n", "line 2: there is no file sub"),
        ("path,label\nsub/gone.png,dog\n", "line 2: there is no file sub/gone.png"),
        ("path,label\n,dog\n", "line 2: the path is empty"),
        ("path,label\na\0.png,dog\n", "path contains a NUL|cannot be read"),
        ("path,label\na.png,\n", "no labelled picture to train on"),
        (
            "path,label,split\na.png,dog,training\n",
            "split takes one of labeled, unlabeled, val, test .or train for labeled., got 'training'",
        ),
        ("path,label,split\na.png,dog,\na.png,,test\n", "line 3: a picture of test needs a label"),
        ("path,label,split\na.png,dog,\na.png,wolf,test\n", "no labelled picture has: wolf"),
        ("path,label\n" + "x" * 200_000 + ",dog\n", "cannot be read as a CSV"),
    ],
)
def test_mistakes_are_told_with_their_line(folder: Path, text: str, reason: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)pictures\.csv.*({reason})"):
        load(folder, text)


def test_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "pictures.csv").write_bytes(b"path,label\n\xff\xfe,dog\n")
    with pytest.raises(DataError, match="cannot be read as a CSV"):
        read(CsvList(), [folder])
