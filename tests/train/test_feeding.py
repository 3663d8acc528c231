"""A run that is fed from files is the run on the same pictures in memory, bit for bit."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from metapl import config as configs
from metapl import data
from metapl.config import Config
from metapl.data.sources.folder import Folder
from metapl.data.splits import assemble
from metapl.evaluate import held_out
from metapl.schema import ConfigError
from metapl.train.groups import seeds_together
from metapl.train.loop import Hooks, train
from metapl.train.program import prepare

SETTINGS = """
log_every_steps = 3
eval_every_steps = 4
[augmentation.weak]
shift_pixels = 1
[augmentation.strong]
layers = 1
ops = ["invert"]
[model]
name = "mlp"
hidden = [8]
activation = "relu"
[[stages]]
steps = 10
labeled_batch = 5
unlabeled_batch = 40
[stages.method]
name = "mpl"
consistency.weight = 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several sizes, 9 labelled and 23 not, of two classes."""
    place, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for part, count in (
        ("labeled/a", 4),
        ("labeled/b", 5),
        ("unlabeled", 23),
        ("val/a", 3),
        ("test/a", 5),
        ("test/b", 6),
    ):
        (place / part).mkdir(parents=True)
        for number in range(count):
            pixels = draw.integers(0, 256, (5 + number % 3, 6, 3), np.uint8)
            Image.fromarray(pixels).save(place / part / f"{number}.png")
    return place


def settings(folder: Path, **changes) -> Config:
    config = configs.parse(SETTINGS + f'[data]\nname = "folder"\npath = "{folder}"\nsize = 5\n', "test")
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **changes))


def trained_on(config: Config) -> tuple[list, object]:
    """All numbers that a run tells, and its weights."""
    datasets, told = data.load(config.data, [3], ()), []

    def examine(stage, step, trained):
        (found,) = held_out.examine(trained, config.augmentation, datasets)
        return {"test_nll": np.array([found.test.nll]), "val_nll": np.array([found.val.nll])}

    trained = train(config, [3], datasets, Hooks(lambda *news: told.append(news), examine=examine))
    return [(stage, step, jax.tree.map(np.asarray, metrics)) for stage, step, metrics in told], trained.weights


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture(scope="module")
def from_memory(folder: Path):
    return trained_on(settings(folder, feed="memory"))


def test_files_and_memory_give_the_same_bits(folder: Path, from_memory):
    """What is trained, told and evaluated."""
    told, weights = trained_on(settings(folder, feed="files", workers=0))
    assert_same(told, from_memory[0])
    assert_same(weights, from_memory[1])


def test_seeds_go_one_after_another(folder: Path):
    config = settings(folder, feed="files")
    datasets = data.load(config.data, [3, 4], ())
    program = prepare(config, datasets)
    assert seeds_together("auto", 2, config, program, datasets[0]) == 1
    assert seeds_together(5, 1, config, program, datasets[0]) == 1
    with pytest.raises(ConfigError, match=r"--seeds-at-once 2: .* one after another.*--data\.feed memory"):
        seeds_together(2, 2, config, program, datasets[0])
    with pytest.raises(ConfigError, match="one after another, not at once"):
        train(config, [3, 4], datasets, program=program)


def test_what_fits_goes_to_memory(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def loaded(feed: str) -> tuple[bool, str]:
        told: list[str] = []
        (dataset,) = data.load(Folder(path=str(folder), size=5, feed=feed), [0], (), told.append)
        return dataset.from_files, told[0]

    size = 75 * (9 + 23 + 3 + 11)
    assert loaded("auto") == (False, "all pictures are decoded before the first step, into 0.00345 MB of memory")
    assert loaded("files") == (
        True,
        "pictures are read and decoded when a step needs them; all of them would fill 0.00345 MB",
    )
    monkeypatch.setattr(assemble, "MEMORY_LIMIT", size)
    assert not loaded("auto")[0]
    monkeypatch.setattr(assemble, "MEMORY_LIMIT", size - 1)
    from_files, told = loaded("auto")
    assert from_files
    assert told.endswith("would fill 0.00345 MB, more than the limit of 0.00345 MB")
    monkeypatch.setattr(assemble, "MEMORY_LIMIT", 1000)
    with pytest.raises(ConfigError, match=r"23 pictures of 75 bytes each do not fit .* or feed = files"):
        loaded("memory")
