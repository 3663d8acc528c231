"""Splits: exactly whom the paper labels, and balanced ones."""

from pathlib import Path

import numpy as np
import pytest

from metapl.data.sources.digits import Digits, read
from metapl.data.sources.source import DataError, Files, InMemory, Part, PictureConfig, Records, Source
from metapl.data.sources.spec import PAPER, Spec, parse_for, parse_spec
from metapl.data.splits.assemble import assemble
from metapl.data.splits.split import Split, count, labels_of, make_split
from metapl.schema import ConfigError, validate


def part(size: int, classes: int = 10, name: str = "train") -> Part:
    """Pictures of one pixel, all the same memory."""
    array = np.broadcast_to(np.uint8(0), (size, 1, 1, 3))
    return Part(InMemory(array, name), (np.arange(size) % classes).astype(np.int32))


def source(**sizes: int) -> Source:
    return Source({name: part(size, name=name) for name, size in sizes.items()}, tuple("0123456789"))


def split(text: str, of: Source) -> Split:
    return make_split(parse_spec(text), of)


@pytest.mark.parametrize("text", PAPER)
def test_the_papers_names(text: str) -> None:
    assert parse_spec(text) == Spec(text, PAPER[text])


def test_names_are_taken_apart() -> None:
    assert parse_spec("cifar10@4000#1") == Spec("cifar10@4000#1", "cifar10", 4000, 1)
    assert parse_spec("fashion_mnist@40#0") == Spec("fashion_mnist@40#0", "fashion_mnist", 40, 0)
    assert parse_spec("digits") == Spec("digits", "digits")
    assert parse_for("given", "digits") == Spec("digits", "digits")


@pytest.mark.parametrize(
    "text",
    [
        *("", "cifar10@", "cifar10@4000", "cifar10@4000#", "cifar10@-4#1", "cifar10@4e3#1", "cifar10@0#1", "@40#1"),
        *(
            "cifar10@40#-1",
            f"cifar10@40#{2**32}",
            "cifar10@40#1\n",
            "imagenet-30",
            "imagenet-10-val30",
            "a/b",
            "cifar10@٤٠#1",
        ),
    ],
)
def test_what_is_no_split_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="split"):
        parse_spec(text)


def test_a_source_refuses_the_split_of_another_before_reading() -> None:
    validate(Digits(split="digits@40#3"))
    for text in ("cifar10@40#1", "cifar10-4k", "digits@"):
        with pytest.raises(ConfigError, match="split"):
            validate(Digits(split=text))
    assert issubclass(Digits, PictureConfig)


def test_cifar10_4k() -> None:
    found = split("cifar10-4k", source(train=50_000, test=10_000))
    ((where, labeled),), ((also, unlabeled),) = found.labeled, found.unlabeled
    assert where == also == "train"
    assert labeled.tolist() == list(range(5_000, 9_000))
    assert unlabeled.tolist() == list(range(9_000, 50_000))
    assert (count(found.val), count(found.test)) == (0, 10_000)


def test_svhn_1k() -> None:
    found = split("svhn-1k", source(train=73_257, extra=531_131, test=26_032))
    (_, labeled), (_, rest), (last, extra) = *found.labeled, *found.unlabeled
    assert labeled.tolist() == list(range(5_000, 6_000))
    assert count(found.unlabeled) == 603_388  # "about 603,000"
    assert sorted([*labeled, *rest]) == list(range(73_257))
    assert (last, len(extra), count(found.test)) == ("extra", 531_131, 26_032)


def test_svhn_with_7300_held_out() -> None:
    found = split("svhn-val7300", source(train=73_257, extra=531_131, test=26_032))
    (_, labeled), (_, val), (where, extra) = *found.labeled, *found.val, *found.unlabeled
    assert (labeled.tolist(), val.tolist()) == (list(range(7_300, 73_257)), list(range(7_300)))
    assert (where, len(extra), count(found.test)) == ("extra", 531_131, 26_032)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("svhn-val7300", {"train": 73_257}),
        ("cifar10-4k", {"train": 49_999}),
        ("svhn-1k", {"train": 73_257}),
        ("svhn-1k", {"train": 73_257, "extra": 9}),
        ("imagenet-10", {"train": 50_000}),
    ],
)
def test_the_papers_splits_want_the_official_files(text: str, sizes: dict[str, int]) -> None:
    with pytest.raises(DataError, match=f"{text} is a split of"):
        split(text, source(**sizes))


@pytest.fixture
def imagenet() -> Source:
    shards = tuple(Path(f"train-{i:05}-of-01024") for i in range(1024))
    each = np.arange(1024) % 3 + 1  # one to three records in a shard
    shard = np.repeat(np.arange(1024), each).astype(np.int32)
    offset = np.arange(len(shard), dtype=np.int64)
    labels = (offset % 10).astype(np.int32)
    return Source({"train": Part(Records(shards, shard, offset, "x"), labels)}, tuple("0123456789"))


@pytest.mark.parametrize(
    ("held_out", "percent", "shards"),
    [
        *((0, *of) for of in ((10, 102), (20, 204), (40, 409), (80, 819), (100, 1024))),
        *((20, *of) for of in ((10, 102), (20, 204), (40, 409), (80, 819), (100, 1004))),
        (40, 100, 984),
    ],
)
def test_imagenet_by_shards(imagenet: Source, held_out: int, percent: int, shards: int) -> None:
    found = split(f"imagenet-{percent}-val{held_out}" if held_out else f"imagenet-{percent}", imagenet)
    end = 1024 - held_out
    images = imagenet.parts["train"].images
    assert isinstance(images, Records)
    held = {
        role: set(images.shard[rows].tolist())
        for role in ("labeled", "unlabeled", "val")
        for _, rows in getattr(found, role)
    }
    assert held["labeled"] == set(range(shards))
    assert held["unlabeled"] == (set(range(shards, end)) if percent < 100 else held["labeled"])
    assert held.get("val", set()) == set(range(end, 1024))
    assert count(found.labeled) == int((images.shard < shards).sum())


def test_balanced_splits_have_as_many_of_each_class() -> None:
    digits = read(Digits(), [])
    labels = digits.parts["train"].labels
    for total in (10, 40, 250):
        found = split(f"digits@{total}#1", digits)
        ((_, rows),) = found.labeled
        assert np.bincount(labels[rows]).tolist() == [total // 10] * 10
        assert len(set(rows.tolist())) == total
        # As FixMatch and USB do: every training picture is an unlabelled one too.
        assert count(found.unlabeled) == len(labels)
        assert count(found.test) == 360


def rows(text: str) -> set[int]:
    return set(split(text, read(Digits(), [])).labeled[0][1].tolist())


def test_balanced_splits_are_functions_of_the_seed() -> None:
    assert rows("digits@40#1") == rows("digits@40#1")
    assert rows("digits@40#1") != rows("digits@40#2")
    assert rows("digits@10#1") < rows("digits@40#1") < rows("digits@250#1")
    # Written down once: another draw under the same name would silently be another benchmark.
    assert sorted(rows("digits@10#1")) == [13, 124, 146, 152, 559, 776, 943, 1040, 1064, 1296]


def test_balanced_splits_that_cannot_be() -> None:
    digits = read(Digits(), [])
    with pytest.raises(DataError, match="10 classes cannot share 45 labels evenly; take 40 or 50"):
        split("digits@45#1", digits)
    with pytest.raises(DataError, match="take 10"):
        split("digits@5#1", digits)
    with pytest.raises(DataError, match=r"the class \d has \d+ labelled pictures, but needs 1000"):
        split("digits@10000#1", digits)


def test_balanced_splits_use_extra_pictures_too() -> None:
    found = split("svhn@100#0", source(train=1_000, extra=500, test=50))
    assert [(name, len(rows)) for name, rows in found.unlabeled] == [("train", 1_000), ("extra", 500)]


def test_the_given_division() -> None:
    bare = source(train=100, test=10)
    found = split("x", bare)
    assert found.labeled[0][1].tolist() == found.unlabeled[0][1].tolist() == list(range(100))
    labels = bare.parts["train"].labels.copy()
    labels[50:] = -1
    half = Source(
        bare.parts | {"train": Part(bare.parts["train"].images, labels), "unlabeled": part(7)}, bare.class_names
    )
    found = split("x", half)
    assert found.labeled[0][1].tolist() == list(range(50))
    assert [(name, len(rows)) for name, rows in found.unlabeled] == [("train", 50), ("unlabeled", 7)]
    labels[:] = -1
    with pytest.raises(DataError, match="no training picture has a label"):
        split("x", half)


def random_part(size: int, name: str) -> Part:
    array = np.random.RandomState(size).randint(0, 256, (size, 2, 2, 3)).astype(np.uint8)
    return Part(InMemory(array, name), (np.arange(size) % 10).astype(np.int32))


def test_assembled_pictures_are_the_chosen_ones() -> None:
    of = Source({name: random_part(size, name) for name, size in (("train", 60), ("extra", 7))}, tuple("0123456789"))
    found = split("svhn@20#0", of)
    data = assemble(of, found)
    ((_, rows),) = found.labeled
    train, extra = of.parts["train"].images, of.parts["extra"].images
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(data.images("labeled")[i], train[row])
        assert data.images("labeled").name(i) == f"train[{row}]"
    np.testing.assert_array_equal(data.labels("labeled"), labels_of(of, found.labeled))
    assert len(data.images("unlabeled")) == 67
    np.testing.assert_array_equal(data.images("unlabeled")[63], extra[3])
    assert (
        data.images("unlabeled").name(59),
        data.images("unlabeled").name(63),
        data.images("unlabeled").name(-1),
    ) == (
        "train[59]",
        "extra[3]",
        "extra[6]",
    )
    assert (len(data.images("test")), len(data.images("val")), len(data.labels("test"))) == (0, 0, 0)


def test_neighbours_are_not_copied() -> None:
    of = Source({"train": random_part(60, "train"), "test": random_part(7, "test")}, tuple("0123456789"))
    data = assemble(of, split("x", of))
    for found, name in (
        (data.images("labeled"), "train"),
        (data.images("unlabeled"), "train"),
        (data.images("test"), "test"),
    ):
        assert isinstance(found, InMemory)
        whole = of.parts[name].images
        assert isinstance(whole, InMemory)
        assert np.shares_memory(found.array, whole.array)


def test_files_and_records_are_selected_and_joined(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text(name)
    paths = [tmp_path / name for name in "abcd"]
    files = Source(
        {
            "train": Part(Files(tuple(paths[:3]), tmp_path), np.array([0, -1, 0], np.int32)),
            "unlabeled": Part(Files(tuple(paths[3:]), tmp_path), np.array([-1], np.int32)),
        },
        ("x",),
    )
    data = assemble(files, split("folder", files))
    assert [data.images("labeled").name(i)[-1] for i in range(2)] == ["a", "c"]
    assert [data.images("unlabeled").name(i)[-1] for i in range(2)] == ["b", "d"]

    def one(path: Path) -> Records:
        return Records((path,), np.zeros(2, np.int32), np.array([0, 9], np.int64), "x")

    recorded = Source(
        {
            "train": Part(one(paths[0]), np.array([0, -1], np.int32)),
            "unlabeled": Part(one(paths[1]), np.array([-1, -1], np.int32)),
        },
        ("x",),
    )
    data = assemble(recorded, split("tfrecord", recorded))
    assert [data.images("unlabeled").name(i)[-3:] for i in range(3)] == ["a@9", "b@0", "b@9"]
