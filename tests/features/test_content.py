"""A swapped picture is noticed, however many there are; names and labels do not matter."""

import numpy as np

from metapl.data.sources.source import Files, InMemory
from metapl.data.splits import manifest
from metapl.features.content import digest


def files(folder, contents):
    folder.mkdir()
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"{number}.png")
        paths[-1].write_bytes(content)
    return Files(tuple(paths), folder)


def test_every_byte_of_every_file_counts_and_names_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_SMALL", 0)  # as if the set were large: the manifest then samples
    middle = 200_000
    first = bytes(2 * middle)
    swapped = first[:middle] + b"x" + first[middle + 1 :]
    one = files(tmp_path / "one", [first, b"other"])
    assert digest(one) == digest(files(tmp_path / "renamed", [first, b"other"]))
    assert digest(one) != digest(files(tmp_path / "swapped", [swapped, b"other"]))
    assert digest(one) != digest(files(tmp_path / "turned", [b"other", first]))
    assert digest(one) != digest(files(tmp_path / "moved", [first + b"o", b"ther"]))


def test_pixels_in_memory_count():
    pixels = np.zeros((3, 4, 4, 1), np.uint8)
    changed = pixels.copy()
    changed[1, 2, 3] = 1
    assert digest(InMemory(pixels, "some")) == digest(InMemory(pixels.copy(), "other"))
    assert digest(InMemory(pixels, "some")) != digest(InMemory(changed, "some"))
