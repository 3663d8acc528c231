"""timm's weights give timm's answers: against the PyTorch copies where PyTorch is, against stored logits everywhere.

The stored numbers are what `python tests/models/timm_like.py` printed (PyTorch 2.13.0, CPU).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from metapl import models
from metapl.algorithms.losses import cross_entropy
from metapl.models.efficientnet import EfficientNet
from metapl.models.pretrained import from_timm
from metapl.models.resnet import ResNet
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError
from metapl.weights import load
from tests.models import timm_like

MODELS = {
    "resnet18": ResNet(depth=18),
    "resnet50": ResNet(depth=50),
    "efficientnet_b0": EfficientNet("b0", padding="symmetric", norm_epsilon=1e-5),
    "tf_efficientnet_b0": EfficientNet("b0"),
}
STORED = {
    "resnet18": [[10.930265, 29.721985, -62.881973], [13.383609, 22.206635, -54.994484]],
    "resnet50": [[-5.6489573, -34.719093, 42.23785], [-4.597961, -36.22996, 42.451553]],
    "efficientnet_b0": [[11.173456, 20.85797, -12.513654], [0.80305886, 0.8497682, -0.09260496]],
    "tf_efficientnet_b0": [[4.6464596, 4.665952, -1.2716212], [1.6800793, 3.4885845, -0.73623514]],
}


def close(ours, theirs, tolerance=1e-4):
    """Equal up to rounding, relative to the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


def network_from(tensors, config, tmp_path, classes=timm_like.CLASSES):
    """Our network and its weights, by way of a file."""
    network = models.build(config, classes)
    expected = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    save_file(tensors, tmp_path / "timm.safetensors")
    return network, load(tmp_path / "timm.safetensors", expected)


def logits(network, weights, pictures):
    return jax.jit(lambda weights, x: network.apply(weights.params, weights.stats, x, train=False)[0])(
        weights, pictures
    )


@pytest.mark.parametrize("name", MODELS)
def test_stored_logits_are_met(name, tmp_path):
    """The same tensors by the same formula, without PyTorch."""
    tensors = {key: timm_like.tensor(key, shape) for key, shape in timm_like.shapes(name).items()}
    network, (weights, note) = network_from(tensors, MODELS[name], tmp_path)
    assert note == ""
    side = timm_like.STORED[name][2]
    close(logits(network, weights, timm_like.pictures(side, side)), STORED[name])


def test_another_number_of_classes_leaves_the_classifier_to_be_drawn(tmp_path):
    tensors = {key: np.zeros(shape, np.float32) for key, shape in timm_like.shapes("resnet18").items()}
    _, (weights, note) = network_from(tensors, MODELS["resnet18"], tmp_path, classes=10)
    assert "is for 3 classes, the data have 10" in note
    assert "head" not in weights.params


def test_a_variant_that_we_do_not_have_is_listed_in_its_own_names(tmp_path):
    """timm's resnet50d has three convolutions in its stem."""
    tensors = {key: np.zeros(shape, np.float32) for key, shape in timm_like.shapes("resnet18").items()}
    tensors["conv1.0.weight"] = tensors.pop("conv1.weight")
    with pytest.raises(ConfigError, match=r"1 missing \(params/stem_conv/kernel\); 1 unexpected \(conv1.0.weight\)$"):
        network_from(tensors, MODELS["resnet18"], tmp_path)


def test_counters_are_ignored_and_odd_tensors_keep_their_names():
    odd = {"bn1.num_batches_tracked": np.array(3), "conv1.bias.weight": np.zeros(2), "fc.weight": np.zeros((1, 2, 3))}
    assert from_timm(odd).keys() == {"conv1.bias.weight", "fc.weight"}


# --- against PyTorch --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed; the stored logits are tested all the same")


def randomized(torch, name, classes=timm_like.CLASSES):
    """A PyTorch copy with random weights and statistics, and its tensors."""
    import torch_networks

    network, arguments, _ = timm_like.STORED[name]
    copy = getattr(torch_networks, network)(classes=classes, **arguments)
    return fill(torch, copy)


def fill(torch, copy):
    with torch.no_grad():
        for key, value in copy.state_dict().items():
            if value.ndim:
                value.copy_(
                    torch.from_numpy(timm_like.tensor("other " + key.replace("norm", "bn"), tuple(value.shape)))
                )
    return copy, {key: value.numpy() for key, value in copy.state_dict().items()}


def nchw(torch, pictures):
    return torch.from_numpy(np.array(pictures)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_pytorch_copy(torch, name, tmp_path):
    """At even and odd heights and widths, where the paddings part ways."""
    copy, tensors = randomized(torch, name)
    counted = {key: tuple(value.shape) for key, value in tensors.items() if value.ndim}
    assert counted == timm_like.shapes(name)
    network, (weights, _) = network_from(tensors, MODELS[name], tmp_path)
    pictures = timm_like.pictures(33, 46)
    with torch.no_grad():
        theirs = copy.eval()(nchw(torch, pictures)).numpy()
    close(logits(network, weights, pictures), theirs)


def test_the_gradient_is_that_of_the_pytorch_copy(torch, tmp_path):
    """In training mode: batch statistics, their gradient, and the running averages after the step."""
    copy, tensors = randomized(torch, "resnet18")
    network, (weights, _) = network_from(tensors, MODELS["resnet18"], tmp_path)
    pictures, labels = timm_like.pictures(64, 64), np.array([2, 0])

    @jax.jit
    def loss(params):
        answers, stats = network.apply(params, weights.stats, pictures, train=True)
        return cross_entropy(jnp.asarray(labels), answers), stats

    (value, stats), gradient = jax.value_and_grad(loss, has_aux=True)(weights.params)
    theirs = torch.nn.functional.cross_entropy(copy.train()(nchw(torch, pictures)), torch.from_numpy(labels))
    theirs.backward()
    close(value, theirs.item())
    close(gradient["stem_conv"]["kernel"], copy.conv1.weight.grad.permute(2, 3, 1, 0), 1e-3)
    close(gradient["stem_norm"]["scale"], copy.bn1.weight.grad, 1e-3)
    shortcut = copy.layer2[0].downsample[0].weight.grad
    close(gradient["stage2_block0"]["shortcut_conv"]["kernel"], shortcut.permute(2, 3, 1, 0), 1e-3)
    close(gradient["stage4_block1"]["norm2"]["bias"], copy.layer4[1].bn2.bias.grad, 1e-3)
    close(gradient["head"]["kernel"], copy.fc.weight.grad.T, 1e-3)
    close(stats["stem_norm"]["mean"], copy.bn1.running_mean)


def test_the_wide_resnet_is_the_one_that_is_measured_against(torch, tmp_path):
    """No file of others has it; the benchmark's copy has, and must do the same work."""
    import torch_networks

    copy, tensors = fill(torch, torch_networks.wide_resnet(16, 2, classes=3, padding="same"))
    ours = from_timm({as_resnet(key): value for key, value in tensors.items()})
    tensors = {key.replace("stem_norm", "head_norm"): np.asarray(value, order="C") for key, value in ours.items()}
    network, (weights, _) = network_from(tensors, WideResNet(16, 2), tmp_path)
    pictures = timm_like.pictures(17, 32)
    with torch.no_grad():
        theirs = copy.eval()(nchw(torch, pictures)).numpy()
    close(logits(network, weights, pictures), theirs)


def as_resnet(key):
    """The wide network's tensor by the name that a ResNet has for it; its only norm outside blocks is the last."""
    module, leaf = key.rsplit(".", 1)
    if module.startswith("blocks"):
        _, number, layer = module.split(".")
        stage, block = divmod(int(number), 2)
        return f"layer{stage + 1}.{block}.{layer.replace('norm', 'bn').replace('shortcut', 'downsample.0')}.{leaf}"
    return {"stem": "conv1", "norm": "bn1", "head": "fc"}[module] + f".{leaf}"
