"""Batches: every example once, in order, whatever the rule; few sizes, so that few programs are compiled."""

import numpy as np
import pytest
from PIL import Image

from metapl import models
from metapl.augment.views import Augmentation
from metapl.data.sources.on_disk import OnDisk, Reading
from metapl.data.sources.source import Files
from metapl.inference.batches import (
    ESTIMATOR,
    EVALUATION,
    PREDICTION,
    STORED_PREDICTIONS,
    BatchRule,
    in_batches,
    most_at_once,
    sizes,
)
from metapl.models.heads import Heads
from metapl.models.wide_resnet import WideResNet
from metapl.types import Network

RULES = (EVALUATION, STORED_PREDICTIONS, PREDICTION, ESTIMATOR)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rest)
@pytest.mark.parametrize("most", [1, 2, 20, 256])
def test_every_example_is_in_one_batch(rule: BatchRule, most):
    for count in (*range(60), 599):
        rows = np.arange(2 * count).reshape(count, 2)
        seen = []

        def note(batch, seen=seen):
            seen.append(len(batch))
            return batch

        computed = list(in_batches(note, [rows], sizes(rule, count, most)))
        np.testing.assert_array_equal(np.concatenate([rows[:0], *computed]), rows)
        assert max(seen, default=0) <= most


def test_few_sizes_are_compiled():
    def used(rule: BatchRule, most: int) -> set[int]:
        return {size for count in range(600) for size in sizes(rule, count, most)}

    assert used(PREDICTION, 256) == {1, 16, 256}
    assert used(PREDICTION, 1) == {1}
    assert used(ESTIMATOR, 128) == {128}
    assert sizes(STORED_PREDICTIONS, 25, 10) == [10, 10, 5]


def test_the_limits_are_examples_and_pixels_of_what_the_network_sees():
    plain, enlarged = Augmentation(), Augmentation(size=224)
    network = models.build(WideResNet(depth=10, width=1), classes=2)
    heads = models.build(Heads(WideResNet(depth=10, width=1), size=224), classes=2)

    def most(rule: BatchRule, side: int, views: Augmentation = plain, network: Network = network, seeds: int = 1):
        return most_at_once(rule, (side, side, 3), views, network, seeds)

    assert most(EVALUATION, 32) == 2048
    assert most(EVALUATION, 32, seeds=4) == 512
    assert most(STORED_PREDICTIONS, 32) == 2000
    assert most(PREDICTION, 224) == most(PREDICTION, 32, enlarged) == most(PREDICTION, 32, network=heads) == 20
    assert most(PREDICTION, 4000) == 1
    assert {most_at_once(rule, (64,), plain, network, seeds=100) for rule in RULES} == {2048, 2000, 256, 128}
    assert most(ESTIMATOR, 512) == 128


def test_each_seed_has_its_own_examples():
    rows = np.arange(10).reshape(5, 2)
    computed = in_batches(lambda batch: batch, [rows, -rows], [2, 2, 2])
    np.testing.assert_array_equal(np.concatenate(list(computed), axis=1), [rows, -rows])


def test_pictures_on_disk_are_read_from_a_row_on(tmp_path):
    pictures = np.arange(7, dtype=np.uint8)[:, None, None, None].repeat(3, -1)
    paths = tuple(tmp_path / f"{number}.png" for number in range(7))
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    on_disk = OnDisk(Files(paths, tmp_path), 0, Reading())
    for batch_sizes, first in (([3, 3, 1], 3), ([4, 3], 4), ([5, 2], 5), ([4, 4], 0), ([7], 0)):
        computed = in_batches(lambda batch: batch[:, 0, 0], [on_disk], batch_sizes, first)
        np.testing.assert_array_equal(np.concatenate(list(computed)), pictures[first:, 0, 0])
