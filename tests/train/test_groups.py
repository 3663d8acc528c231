"""Who trains with whom."""

import jax
import pytest

from metapl import config as configs
from metapl import data
from metapl.train import groups
from metapl.train.program import prepare
from metapl.types import Weights


def together(model: str, at_once: groups.AtOnce, seeds: int = 10) -> int:
    config = configs.parse(f'[data]\nname = "digits"\n[model]\n{model}', "test")
    datasets = data.load(config.data, [0], ())
    return groups.seeds_together(at_once, seeds, config, prepare(config, datasets), datasets[0])


def test_groups_hold_every_seed_once():
    numbers = list(range(10))
    assert [numbers[group] for group in groups.groups(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [numbers[group] for group in groups.groups(2, 2)] == [[0, 1]]


def test_small_networks_train_together_and_others_one_by_one():
    assert together('name = "mlp"\nhidden = [64]', "auto") == 10
    assert together('name = "mlp"\nhidden = [2048, 2048]', "auto") == 1
    assert together('name = "wide_resnet"\ndepth = 10\nwidth = 1', "auto") == 1


def test_a_number_wins():
    assert together('name = "wide_resnet"\ndepth = 10\nwidth = 1', 4) == 4
    assert together('name = "mlp"\nhidden = [64]', 40) == 10


@pytest.mark.parametrize(("shape", "small"), [((3, 4), True), ((3, 3, 4, 4), False), ((1001, 1000), False)])
def test_layers_without_convolutions_are_small_up_to_a_million_weights(shape, small):
    assert groups.is_small(Weights({"kernel": jax.ShapeDtypeStruct(shape, "float32")}, {})) == small
