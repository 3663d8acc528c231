"""A layer of RandAugment: the table of its docstring against Pillow, and every image on its own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from metapl.augment import randaugment
from metapl.augment.randaugment import CIFAR_OPS, SVHN_OPS, Draw, RandAugment, distort, draw, layer
from metapl.schema import ConfigError, from_dict, to_dict, validate
from tests.augment.sample_pictures import noise, photographs, to_pillow

PICTURES = photographs()
CONFIG = RandAugment()
compiled_layer = jax.jit(layer, static_argnums=0)
compiled_distort = jax.jit(distort, static_argnums=0)
compiled_draw = jax.jit(draw, static_argnums=(0, 1))


def draw_of(op: str | None, magnitude: float, sign: float = 1.0, batch: int = len(PICTURES)) -> Draw:
    place = -1 if op is None else CIFAR_OPS.index(op)
    return Draw(
        jnp.full((batch,), place, jnp.int32),
        jnp.full((batch,), magnitude, jnp.float32),
        jnp.full((batch,), sign, jnp.float32),
        jnp.roll(jnp.arange(batch, dtype=jnp.int32), 1),
    )


def moved(picture, coefficients):
    return picture.transform(picture.size, Image.Transform.AFFINE, coefficients, fillcolor=(128, 128, 128))


# What the module's docstring promises: (picture, partner, s, sign) to picture, in Pillow; s = M / 10, a side is 32.
PILLOW = {
    "auto_contrast": lambda picture, partner, s, sign: ImageOps.autocontrast(picture),
    "equalize": lambda picture, partner, s, sign: ImageOps.equalize(picture),
    "invert": lambda picture, partner, s, sign: ImageOps.invert(picture),
    "posterize": lambda picture, partner, s, sign: ImageOps.posterize(picture, max(8 - int(4 * s), 4)),
    "solarize": lambda picture, partner, s, sign: ImageOps.solarize(picture, 256 - int(256 * s)),
    "brightness": lambda picture, partner, s, sign: ImageEnhance.Brightness(picture).enhance(0.1 + 1.8 * s),
    "color": lambda picture, partner, s, sign: ImageEnhance.Color(picture).enhance(0.1 + 1.8 * s),
    "contrast": lambda picture, partner, s, sign: ImageEnhance.Contrast(picture).enhance(0.1 + 1.8 * s),
    "sharpness": lambda picture, partner, s, sign: ImageEnhance.Sharpness(picture).enhance(0.1 + 1.8 * s),
    "sample_pairing": lambda picture, partner, s, sign: Image.blend(picture, partner, min(0.4 * s, 0.4)),
    "rotate": lambda picture, partner, s, sign: picture.rotate(sign * 30 * s, fillcolor=(128, 128, 128)),
    "shear_x": lambda picture, partner, s, sign: moved(picture, (1, sign * 0.3 * s, 0, 0, 1, 0)),
    "shear_y": lambda picture, partner, s, sign: moved(picture, (1, 0, 0, sign * 0.3 * s, 1, 0)),
    "translate_x": lambda picture, partner, s, sign: moved(picture, (1, 0, sign * 4 * s, 0, 1, 0)),
    "translate_y": lambda picture, partner, s, sign: moved(picture, (1, 0, 0, 0, 1, sign * 4 * s)),
}


def test_the_docstring_lists_every_op():
    assert set(PILLOW) == set(CIFAR_OPS)
    assert all(op in randaugment.__doc__ for op in CIFAR_OPS)


@pytest.mark.parametrize("op", CIFAR_OPS)
def test_every_op_does_what_the_table_says(op):
    for magnitude in (0, 3, 8, 10, 16, 22, 30):
        for sign in (1, -1):
            ours = compiled_layer(CONFIG, PICTURES, PICTURES, draw_of(op, magnitude, sign))
            pairs = zip(PICTURES, np.roll(PICTURES, 1, axis=0), strict=True)
            theirs = [PILLOW[op](to_pillow(one), to_pillow(other), magnitude / 10, sign) for one, other in pairs]
            off = np.abs(np.asarray(ours, np.int32) - np.stack([np.asarray(t, np.int32) for t in theirs]))
            assert (off > 1).mean() <= (0.002 if op in ("rotate", "shear_x", "shear_y") else 0)


def test_the_paper_table_5():
    common = {"auto_contrast", "brightness", "color", "contrast", "equalize", "invert", "sharpness", "posterize"}
    common |= {"solarize", "shear_x", "shear_y", "translate_y"}
    assert (len(CIFAR_OPS), len(SVHN_OPS)) == (15, 12)
    assert set(SVHN_OPS) == common
    assert set(CIFAR_OPS) == common | {"sample_pairing", "rotate", "translate_x"}


def test_images_of_one_batch_go_through_their_own_ops():
    batch = len(CIFAR_OPS) + 1
    pictures = jnp.asarray(noise(0, (batch, 32, 32, 3)))
    mixed = draw_of(None, 0, batch=batch)._replace(
        op=jnp.arange(-1, batch - 1), magnitude=jnp.linspace(1, 28, batch), sign=jnp.asarray([1.0, -1.0] * (batch // 2))
    )
    together = compiled_layer(CONFIG, pictures, pictures, mixed)
    for row in range(batch):
        everyone = mixed._replace(**{name: jnp.full_like(v, v[row]) for name, v in mixed._asdict().items()})
        alone = compiled_layer(CONFIG, pictures, pictures, everyone._replace(partner=mixed.partner))
        np.testing.assert_array_equal(together[row], alone[row])


def test_a_skipped_op_changes_nothing():
    np.testing.assert_array_equal(compiled_layer(CONFIG, PICTURES, PICTURES, draw_of(None, 16)), PICTURES)


def test_the_partner_is_not_distorted_by_earlier_layers():
    layered = compiled_layer(CONFIG, 255 - PICTURES, PICTURES, draw_of("sample_pairing", 10))
    expected = 0.6 * (255.0 - PICTURES) + 0.4 * np.roll(PICTURES, 1, axis=0)
    np.testing.assert_allclose(layered, expected, atol=1.01)


def test_the_next_image_can_be_the_partner():
    config = dataclasses.replace(CONFIG, partners="next")
    layered = compiled_layer(config, 255 - PICTURES, PICTURES, draw_of("sample_pairing", 10))
    expected = 0.6 * (255.0 - PICTURES) + 0.4 * np.roll(PICTURES, -1, axis=0)
    np.testing.assert_allclose(layered, expected, atol=1.01)


def test_draws_are_even_and_partners_are_others():
    config = RandAugment(ops=("invert", "rotate", "color"), probability=0.8, magnitude=7)
    drawn = compiled_draw(config, 30_000, jax.random.key(0))
    shares = np.bincount(np.asarray(drawn.op) + 1, minlength=16) / 30_000
    for op in config.ops:
        assert shares[CIFAR_OPS.index(op) + 1] == pytest.approx(0.8 / 3, abs=0.015)
    assert shares[0] == pytest.approx(0.2, abs=0.015)
    assert float(drawn.sign.mean()) == pytest.approx(0, abs=0.03)
    assert set(np.unique(drawn.sign)) == {-1, 1}
    assert (drawn.magnitude == 7).all()
    few = jax.vmap(lambda key: draw(config, 3, key).partner)(jax.random.split(jax.random.key(1), 100))
    assert (few != jnp.arange(3)).all()
    assert set(np.unique(few[:, 0])) == {1, 2}


def test_layers_are_drawn_apart():
    """Two layers of inversion, each done half of the time, leave half of the pictures as they were, not all of them."""
    config = RandAugment(layers=2, ops=("invert",), probability=0.5)
    pictures = np.zeros((2000, 1, 1, 1), np.uint8)
    inverted = np.asarray(compiled_distort(config, pictures, jax.random.key(0)))
    assert inverted.mean() / 255 == pytest.approx(0.5, abs=0.05)


def test_all_layers_are_done():
    once = compiled_distort(RandAugment(layers=1, ops=("invert",), probability=1.0), PICTURES, jax.random.key(0))
    twice = compiled_distort(RandAugment(layers=2, ops=("invert",), probability=1.0), PICTURES, jax.random.key(0))
    never = compiled_distort(RandAugment(layers=0), PICTURES, jax.random.key(0))
    np.testing.assert_array_equal(once, 255 - PICTURES)
    np.testing.assert_array_equal(twice, PICTURES)
    np.testing.assert_array_equal(never, PICTURES)


def test_cutout_comes_last():
    config = RandAugment(layers=1, ops=("invert",), probability=1.0, cutout=8)
    cut = np.asarray(compiled_distort(config, np.zeros((50, 16, 16, 3), np.uint8), jax.random.key(0)))
    assert set(np.unique(cut)) == {128, 255}


def test_the_same_compiled_or_not_and_mapped_or_not():
    config = RandAugment(cutout=8)
    keys = jax.random.split(jax.random.key(0))
    batches = jnp.stack([jnp.asarray(PICTURES), 255 - jnp.asarray(PICTURES)])
    compiled = [compiled_distort(config, batch, key) for batch, key in zip(batches, keys, strict=True)]
    np.testing.assert_array_equal(compiled[0], distort(config, batches[0], keys[0]))
    mapped = jax.jit(jax.vmap(lambda batch, key: distort(config, batch, key)))(batches, keys)
    np.testing.assert_array_equal(compiled, mapped)
    assert (compiled_distort(config, batches[0], keys[1]) != compiled[0]).any()


def test_nothing_is_compiled_after_the_first_batch():
    traces = []

    @jax.jit
    def traced(pictures, key):
        traces.append(1)
        return distort(CONFIG, pictures, key)

    for seed in range(5):
        traced(noise(seed, (16, 32, 32, 3)), jax.random.key(seed))
    assert len(traces) == 1


@pytest.mark.parametrize("shape", [(1, 32, 32, 3), (3, 5, 9, 1)])
def test_other_shapes(shape):
    pictures = noise(0, shape)
    for seed in range(10):
        distorted = compiled_distort(CONFIG, pictures, jax.random.key(seed))
        assert distorted.shape == shape
        assert distorted.dtype == jnp.uint8


def test_color_leaves_grey_pictures_alone():
    grey = PICTURES[..., :1]
    np.testing.assert_array_equal(compiled_layer(CONFIG, grey, grey, draw_of("color", 16)), grey)


def test_config_goes_to_a_file_and_back():
    config = RandAugment(layers=1, ops=SVHN_OPS, cutout=16)
    values = to_dict(config)
    assert values.pop("name") == "randaugment"
    assert from_dict(RandAugment, values, {}) == config
    with pytest.raises(ConfigError, match=r"ops\.0 takes one of .*'rotate'"):
        from_dict(RandAugment, {"ops": ["Rotate"]}, {})
    with pytest.raises(ConfigError, match="magnitude takes a number of at most 30"):
        validate(RandAugment(magnitude=31))
