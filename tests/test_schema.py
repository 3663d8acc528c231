"""Settings: what is read, what is refused, and in which words."""

import dataclasses
from typing import Annotated

import pytest
from annotated_types import Ge

from metapl import config as configs
from metapl.augment.randaugment import SVHN_OPS
from metapl.config import Config
from metapl.schema import ConfigError, from_dict, validate


def parse(text: str) -> Config:
    return configs.parse(text, "my.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sed = 1", "my.toml: sed is not a setting; did you mean 'seed'?"),
        ("zebra = 1", "zebra is not a setting; the settings are augmentation, checkpoint, data"),
        ("seed = 1.5", "seed takes a whole number, got 1.5"),
        ("seed = true", "seed takes a whole number, got True"),
        ('seed = "1"', "seed takes a whole number, got '1'"),
        ("seed = -1", "seed takes a number of at least 0, got -1"),
        ("data = 3", "data takes a table of settings, got 3"),
        ('[data]\nname = "three_moons"', "data.name takes one of 'two_moons', 'arrays', "),
        ("[data]\nnoise = nan", "data.noise takes a finite number, got nan"),
        ("[data]\nlabels_per_class = 1000", "data: labels_per_class (1000) must be fewer than points_per_class"),
        ("[model]\nhidden = 8", "model.hidden takes a list, got 8"),
        ("[model]\nhidden = [0]", "model: hidden takes whole numbers of at least 1, got (0,)"),
        ('[model]\nhidden = [8, "8"]', "model.hidden.1 takes a whole number, got '8'"),
        ("stages = []", "stages takes at least 1 of them"),
        ("[[stages]]\nsteps = 0", "stages.0.steps takes a number of at least 1, got 0"),
        ('[[stages]]\nmethod.name = "mpi"', "stages.0.method.name takes one of 'supervised', "),
        (
            '[[stages]]\n[[stages]]\nmethod = {name = "mpl", labels = "firm"}',
            "stages.1.method.labels takes one of 'hard'",
        ),
        (
            "[[stages]]\nmethod.optimizer.nesterov = true",
            "stages.0.method.optimizer: nesterov needs a momentum above 0",
        ),
        (
            '[[stages]]\nmethod = {name = "mpl", labels = "soft"}',
            "stages.0.method: feedback.estimator 'cosine' is right",
        ),
        ('data.name = ["a"]', "data.name takes one of 'two_moons'"),
        ('preset = ["a"]', "preset takes the name of a preset, got ['a']; metapl train --help lists the presets"),
        ("stages = 3", "stages takes a list, got 3"),
        ("stages.1.steps = 5", "stages.1 does not exist: there are 1, counted from 0"),
        ("stages.first.steps = 5", "stages.first does not exist: there are 1"),
        ("stages.0.steps = 0", "stages.0.steps takes a number of at least 1, got 0"),
        ("[data]\nnoise = " + "9" * 400, "data.noise takes a number, got 999"),
        ("seed = 4294967296", "seed takes a number below 4294967296"),
        ('[[stages]]\nmethod.name = "pseudo_labels"', "stages.0.method: pseudo_labels needs a stage before it"),
        (
            '[[stages]]\nmethod.name = "simclr"',
            "stages.0.method: simclr learns no classes; add a stage after it that learns from labels",
        ),
        (
            '[[stages]]\nmethod.name = "byol"\n[[stages]]\nmethod.name = "pseudo_labels"',
            "stages.1.method: pseudo_labels needs a teacher, but the stage before it, byol, learns no classes",
        ),
        (
            '[[stages]]\nmethod.name = "supervised"\nmethod.mixup = 1.0\nmethod.cutmix = 1.0',
            "stages.0.method: mixup = 1.0 and cutmix = 1.0 both mix the batch; set one of them to 0",
        ),
        (
            "stages.0.method.cutmix = 1.0",
            "supervised with these settings needs pictures, and the source two_moons has none",
        ),
        (
            'data.name = "digits"\n[[stages]]\nmethod.name = "simclr"\nmethod.optimizer.sam = 0.05\n[[stages]]',
            "stages.0: method.optimizer.sam = 0.05: simclr does not compute its gradient twice, as SAM must",
        ),
        (
            'data.name = "digits"\n[[stages]]\naugmentation.mean = [0.4]',
            "stages.0.augmentation: mean and std are (0.4,) and (0.5,), but evaluation has (0.5,) and (0.5,)",
        ),
        (
            'data.name = "digits"\n[[stages]]\naugmentation = {size = 6, weak.crop = "resized"}',
            "stages.0.augmentation.size = 6: mlp takes pictures of one size only",
        ),
        ('augmentation.strong.name = "cutmix"', "augmentation.strong.name takes one of 'randaugment', 'autoaugment'"),
        (
            '[[stages]]\nunlabeled = "labeled"\nmethod.name = "noisy_student"',
            "stages.0: unlabeled: noisy_student learns",
        ),
        (
            '[[stages]]\nsteps = 5\nmethod.optimizer = {schedule = "cosine", warmup_steps = 5}',
            "stages.0: warmup_steps (5) must be fewer than the stage's 5 steps",
        ),
        (
            'preset = "two_moon_mpl"',
            "preset takes the name of a preset, got 'two_moon_mpl'; did you mean two_moons_mpl",
        ),
        ("seed = ", "my.toml: Invalid value"),
        ("[stages.0]\nsteps = 2147483648", "stages.0.steps takes a number below 2147483648"),
        (f"seed = {'9' * 5_000}", "my.toml: Exceeds the limit"),
        (f"seed = 0x{'f' * 5_000}", "my.toml: Exceeds the limit"),
        (f"seed = '{'a' * 5_000}'", f"seed takes a whole number, got '{'a' * 198}…"),
    ],
)
def test_a_bad_setting_gets_a_sentence_that_names_it(text, words):
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_whole_number_is_welcome_where_a_number_is_meant():
    assert parse("[data]\nnoise = 0").data.noise == 0.0
    assert isinstance(parse("[data]\nnoise = 0").data.noise, float)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    """As some editors on Windows write it."""
    (tmp_path / "my.toml").write_bytes(b"\xef\xbb\xbfseed = 3\r\n")
    assert configs.load(str(tmp_path / "my.toml")).seed == 3


def test_defaults_then_preset_then_file():
    preset = configs.load("two_moons_uda")
    assert preset.augmentation != Config().augmentation  # the preset wins over the defaults
    changed = parse('preset = "two_moons_uda"\nseed = 5\n[data]\nnoise = 0.2')
    assert changed.augmentation == preset.augmentation  # what the file leaves alone is the preset's
    assert (changed.seed, changed.data.noise) == (5, 0.2)  # and the file wins where it speaks
    assert dataclasses.replace(changed, seed=0, data=preset.data) == preset


def test_a_table_changes_single_items_of_a_list():
    preset = configs.load("two_moons_pseudo_labels")
    changed = parse('preset = "two_moons_pseudo_labels"\nstages.1.method.threshold = 0.5\n[stages.0]\nsteps = 7')
    assert changed.stages[0] == dataclasses.replace(preset.stages[0], steps=7)
    assert changed.stages[1].method == dataclasses.replace(preset.stages[1].method, threshold=0.5)
    assert changed.stages[1].steps == preset.stages[1].steps
    assert parse('preset = "two_moons_pseudo_labels"\n[[stages]]\nsteps = 7').stages == (configs.Stage(steps=7),)


def test_another_kind_starts_from_its_own_defaults():
    base = Config()
    changed = from_dict(Config, {"stages": [{"method": {"name": "mpl"}}]}, configs.KINDS, base)
    assert changed.stages[0].method == configs.KINDS[configs.MethodConfig]["mpl"]()


def test_a_missing_file_is_named_with_the_nearest_presets():
    with pytest.raises(ConfigError, match=r"'nowhere\.toml' is neither a preset nor a TOML file; metapl train --help"):
        configs.load("nowhere.toml")
    with pytest.raises(ConfigError, match="did you mean two_moons_mpl_uda "):
        configs.load("two_moons_mpl_udaa")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "my.toml").write_bytes(b"seed = \xff")
    with pytest.raises(ConfigError, match="cannot be read as UTF-8 text"):
        configs.load(str(tmp_path / "my.toml"))


@dataclasses.dataclass(frozen=True)
class Corners:
    optional: Annotated[int | None, Ge(0)] = None
    inner: Annotated[int, Ge(0)] | None = None
    many: tuple[Annotated[float, Ge(0)], ...] = (1.0,)


def test_limits_hold_inside_optional_types_and_lists():
    validate(Corners())
    for bad, words in (
        ({"optional": -1}, "optional takes"),
        ({"inner": -1}, "inner takes"),
        ({"many": [-1]}, "many.0"),
    ):
        with pytest.raises(ConfigError, match=words):
            validate(from_dict(Corners, bad, {}))


def test_a_source_brings_the_views_that_suit_its_pictures():
    """Digits are not mirrored, not turned, not pushed out of their 8 pixels, unless the file says so."""
    digits = parse('[data]\nname = "digits"').augmentation
    assert (digits.weak.flip, digits.weak.shift_pixels) == (False, 1)
    assert digits.strong.ops == SVHN_OPS
    svhn = parse('[data]\nname = "svhn"\n[augmentation.strong]\nlayers = 3').augmentation
    assert (svhn.weak.flip, svhn.strong.ops, svhn.strong.layers) == (False, SVHN_OPS, 3)
    cifar = parse('[data]\nname = "cifar10"').augmentation
    assert cifar.weak.flip
    assert "sample_pairing" in cifar.strong.ops
    assert parse('[data]\nname = "digits"\n[augmentation.weak]\nflip = true').augmentation.weak.flip


@pytest.mark.parametrize("method", ["uda", "mpl"])
def test_settings_at_the_places_of_version_0_1_0_are_read(method):
    old = 'consistency = {weight = 2.0, labeled_cap = "linear", passes = "apart"}'
    new = 'consistency = {weight = 2.0}, labeled_cap = "linear", passes = "apart"'
    texts = (f'[[stages]]\nmethod = {{name = "{method}", {settings}}}' for settings in (old, new))
    assert len({parse(text) for text in texts}) == 1
