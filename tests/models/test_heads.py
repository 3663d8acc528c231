"""Heads on an encoder: the mean of what they predict, computed as the single networks would."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from metapl import models
from metapl.models.assemble import Encoder, Head, assemble, linear
from metapl.models.heads import Heads
from metapl.models.mlp import MLP
from metapl.models.wide_resnet import WideResNet
from metapl.schema import ConfigError
from metapl.types import Weights

CLASSES, FEATURES = 3, 64
SMALL = WideResNet(depth=10, width=1)
PICTURES = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8, 12, 3)), jnp.float32)
quick = {"xla_backend_optimization_level": 0}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    network = models.build(Heads(SMALL), CLASSES)
    params, stats = jax.jit(network.init)(jax.random.key(0), PICTURES)
    draw = np.random.default_rng(1)
    scale = {"mean": draw.normal(size=FEATURES), "factor": draw.uniform(0.5, 2, FEATURES)}
    scale = {name: jnp.asarray(value, jnp.float32) for name, value in scale.items()}
    return Encoder(Heads(SMALL), Weights({"encoder": params["encoder"], "scale": scale}, stats), (0.5,), (0.5,))


@pytest.fixture(scope="module")
def features(encoder):
    """F, from the encoder as a network of its own: what its classifier is given is found by an identity for it."""
    network = models.build(SMALL, FEATURES)
    params, stats = encoder.weights.params["encoder"], encoder.weights.stats["encoder"]
    identity = {"head": {"kernel": jnp.eye(FEATURES), "bias": jnp.zeros(FEATURES)}}
    run = jax.jit(lambda x: network.apply(params | identity, stats, x, train=False)[0], compiler_options=quick)
    return lambda pictures: np.asarray(run(pictures))


def perceptron(seed: int, *hidden: int) -> Head:
    model = MLP(hidden=hidden, activation="relu", init_range=0.4)
    return Head(model, models.build(model, CLASSES).init(jax.random.key(seed), jnp.zeros((1, FEATURES))))


def answer(assembled, pictures):
    network = models.build(assembled.model, CLASSES)
    params, stats = assembled.weights
    return np.asarray(
        jax.jit(lambda x: network.apply(params, stats, x, train=False)[0], compiler_options=quick)(pictures)
    )


def mean_of_heads(heads, encoder, f):
    scale = encoder.weights.params["scale"]
    x = (f - np.asarray(scale["mean"])) * np.asarray(scale["factor"])
    each = [models.build(head.model, CLASSES).apply(*head.weights, x, train=False)[0] for head in heads]
    return np.mean([softmax(logits, axis=-1) for logits in each], axis=0)


def test_the_probabilities_are_the_mean_of_the_heads(encoder, features):
    heads = [perceptron(1), perceptron(2), perceptron(3, 5), perceptron(4, 5), perceptron(5, 4, 6)]
    assembled = assemble(encoder, heads)
    assert [group.count for group in assembled.model.groups] == [2, 2, 1]
    expected = mean_of_heads(heads, encoder, features(PICTURES))
    np.testing.assert_allclose(np.exp(answer(assembled, PICTURES)), expected, atol=1e-5)


def test_assembled_weights_fit_the_network(encoder):
    assembled = assemble(encoder, [perceptron(1), perceptron(3, 5)])
    fresh = jax.eval_shape(models.build(assembled.model, CLASSES).init, jax.random.key(0), PICTURES)
    jax.tree.map(lambda a, b: np.testing.assert_equal(a.shape, b.shape), assembled.weights, fresh)


def test_mirrored_features_are_averaged(encoder, features):
    heads = [perceptron(1)]
    mirrored = encoder._replace(model=Heads(SMALL, mirror=True))
    both = (features(PICTURES) + features(PICTURES[:, :, ::-1])) / 2
    logits = answer(assemble(mirrored, heads), PICTURES)
    np.testing.assert_allclose(np.exp(logits), mean_of_heads(heads, encoder, both), atol=1e-5)


def test_the_shorter_side_is_scaled_and_grey_becomes_colour(encoder, features):
    grey, heads = PICTURES[..., :1], [perceptron(1)]
    scaled = encoder._replace(model=Heads(SMALL, size=16))
    large = jax.image.resize(jnp.repeat(grey, 3, -1), (4, 16, 24, 3), "linear")
    logits = answer(assemble(scaled, heads), grey)
    np.testing.assert_allclose(np.exp(logits), mean_of_heads(heads, encoder, features(large)), atol=1e-5)
    with pytest.raises(ConfigError, match="not pictures with 2 channels"):
        answer(assemble(scaled, heads), PICTURES[..., :2])


def test_scikit_learns_coefficients_make_a_linear_head():
    draw = np.random.default_rng(2)
    x, coefficients, intercepts = draw.normal(size=(5, 7)), draw.normal(size=(3, 7)), draw.normal(size=3)
    head = linear(coefficients, intercepts)
    logits = models.build(head.model, 3).apply(*head.weights, jnp.asarray(x, jnp.float32), train=False)[0]
    np.testing.assert_allclose(logits, x @ coefficients.T + intercepts, atol=1e-5)
    two = linear(coefficients[:1], intercepts[:1])  # as scikit-learn has it for two classes
    logits = np.asarray(models.build(two.model, 2).apply(*two.weights, jnp.asarray(x, jnp.float32), train=False)[0])
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], x @ coefficients[0] + intercepts[0], atol=1e-5)


def test_no_head_is_an_error(encoder):
    with pytest.raises(ConfigError, match="at least one head"):
        assemble(encoder, [])


def test_frozen_norms_train_what_evaluation_computes_and_keep_statistics_and_scale(encoder):
    assembled = assemble(
        encoder._replace(model=Heads(SMALL, frozen_norms=True)), [linear(np.ones((CLASSES, FEATURES)), np.arange(3.0))]
    )
    network = models.build(assembled.model, CLASSES)
    params, stats = assembled.weights

    @jax.jit
    def in_training(params):
        logits, after = network.apply(params, stats, PICTURES, train=True, key=jax.random.key(0))
        return logits[:, 0].sum(), (logits, after)

    gradient, (logits, after) = jax.grad(in_training, has_aux=True)(params)
    np.testing.assert_allclose(logits, answer(assembled, PICTURES), atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after, stats)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient["scale"]))
    assert np.any(gradient["encoder"]["stem_conv"]["kernel"])
