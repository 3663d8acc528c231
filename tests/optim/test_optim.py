"""From settings to updates: each field does what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from metapl.optim import Optimizer, build
from metapl.schema import ConfigError, validate

PARAMS = {"kernel": jnp.array([[1.0, -2.0]]), "bias": jnp.array([0.5])}
GRADIENT = {"kernel": jnp.array([[0.3, 0.4]]), "bias": jnp.array([1.2])}


def updates(config: Optimizer, steps: int = 1, total: int = 10):
    transform = build(config, total)
    state, out = transform.init(PARAMS), []
    for _ in range(steps):
        update, state = transform.update(GRADIENT, state, PARAMS)
        out.append(update)
    return out


def test_plain_sgd_is_minus_rate_times_gradient():
    np.testing.assert_allclose(updates(Optimizer(learning_rate=0.1))[0]["kernel"], -0.1 * GRADIENT["kernel"])


def test_nesterov_looks_ahead_along_the_momentum():
    one, two = updates(Optimizer(learning_rate=0.1, momentum=0.9, nesterov=True), steps=2)
    np.testing.assert_allclose(one["bias"], -0.1 * (1 + 0.9) * GRADIENT["bias"], rtol=1e-6)
    np.testing.assert_allclose(two["bias"], -0.1 * (1 + 0.9 * 1.9) * GRADIENT["bias"], rtol=1e-6)


def test_decay_pulls_matrices_and_leaves_biases():
    (update,) = updates(Optimizer(learning_rate=0.1, weight_decay=0.01))
    np.testing.assert_allclose(update["kernel"], -0.1 * (GRADIENT["kernel"] + 0.01 * PARAMS["kernel"]), rtol=1e-6)
    np.testing.assert_allclose(update["bias"], -0.1 * GRADIENT["bias"], rtol=1e-6)


def test_clipping_bounds_the_norm():
    (update,) = updates(Optimizer(learning_rate=1.0, clip_norm=0.13))
    np.testing.assert_allclose(optax.tree.norm(update), 0.13, rtol=1e-5)


def test_sam_takes_the_gradient_at_the_worst_point_near_by():
    """f(θ) = ½ θᵀ A θ: at θ + ρ A θ / ‖A θ‖ the gradient is A θ + ρ A A θ / ‖A θ‖."""
    a, theta = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([0.5, -1.0])
    transform = build(Optimizer(learning_rate=0.1, momentum=0.9, sam=0.3), 10)
    params = {"kernel": jnp.asarray(theta, jnp.float32)}

    def gradient(params, _=0):
        return {"kernel": jnp.asarray(a, jnp.float32) @ params["kernel"]}

    state = transform.init(params)
    momentum = np.zeros(2)
    for _ in range(3):
        update, state = transform.update(gradient(params), state, params, grad_fn=gradient)
        g = a @ np.asarray(params["kernel"], float)
        momentum = 0.9 * momentum + g + 0.3 * a @ g / np.sqrt(g @ g)
        np.testing.assert_allclose(update["kernel"], -0.1 * momentum, rtol=1e-4)
        params = optax.apply_updates(params, update)


def test_sam_survives_a_gradient_of_zero():
    transform = build(Optimizer(sam=0.3), 10)
    zeros = jax.tree.map(jnp.zeros_like, GRADIENT)
    update, _ = transform.update(zeros, transform.init(PARAMS), PARAMS, grad_fn=lambda params, _: zeros)
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf, 0), update)


@pytest.mark.parametrize(
    ("only", "trained"), [("classifier", {"head"}), ("classifier_and_norms", {"head", "norm1", "stage1_block0/norm2"})]
)
def test_only_some_weights_train(only, trained):
    leaf = {"kernel": jnp.ones((2, 2))}
    params = {
        "head": leaf,
        "norm1": {"scale": jnp.ones(2)},
        "stem": leaf,
        "stage1_block0": {"norm2": leaf, "conv": leaf},
    }
    transform = build(Optimizer(weight_decay=0.1, only=only), 10)
    update, _ = transform.update(params, transform.init(params), params)
    paths = {
        "/".join(str(step.key) for step in path[:-1])
        for path, value in jax.tree_util.tree_leaves_with_path(update)
        if np.any(value != 0)
    }
    assert paths == trained


def test_a_network_without_a_head_cannot_train_its_head_only():
    with pytest.raises(ConfigError, match="needs a network with a classifier called head"):
        build(Optimizer(only="classifier"), 10).init(PARAMS)


def test_cosine_rises_and_falls_to_nothing():
    rates = [-float(u["bias"][0] / 1.2) for u in updates(Optimizer(0.2, "cosine", warmup_steps=2), steps=11)]
    np.testing.assert_allclose(rates[:3], [0.0, 0.1, 0.2], atol=1e-6)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[10] == pytest.approx(0, abs=1e-7)


def test_a_warm_up_that_never_ends_is_refused():
    with pytest.raises(ConfigError, match=r"warmup_steps \(10\) must be fewer than the stage's 10 steps"):
        build(Optimizer(schedule="cosine", warmup_steps=10), 10)


STEPS = 20


def layers(seed: int) -> dict[str, dict[str, np.ndarray]]:
    """A kernel, a norm, and a stack of norms, whose scales are a matrix."""
    draw = np.random.default_rng(seed)
    shapes = {"dense": {"kernel": (3, 4), "bias": (4,)}, "norm": {"scale": (4,)}, "stack": {"scale": (2, 4)}}
    return {
        layer: {name: draw.normal(size=shape).astype(np.float32) for name, shape in leaves.items()}
        for layer, leaves in shapes.items()
    }


def descend(config: Optimizer):
    """The package's weights after STEPS updates, each with its own gradient, in jit as in training."""
    transform = build(config, STEPS)
    params = layers(0)
    state, update = transform.init(params), jax.jit(transform.update)
    for step in range(STEPS):
        updates, state = update(layers(1 + step), state, params)
        params = optax.apply_updates(params, updates)
    return params


def descend_by_hand(rule):
    """The same in double precision: rule(name, θ, gradient, memory, step) -> θ', one leaf at a time."""
    out = layers(0)
    for layer, leaves in out.items():
        for name in leaves:
            value, memory = leaves[name].astype(np.float64), {}
            for step in range(STEPS):
                value = rule(name, value, layers(1 + step)[layer][name].astype(np.float64), memory, step)
            leaves[name] = value
    return out


def assert_close(ours, by_hand):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), ours, by_hand)


def test_rmsprop_is_tensorflows():
    """TF1: ms ← ρ ms + (1 − ρ) g², from 1; mom ← m mom + lr g / √(ms + ε); θ ← θ − mom, with a rate that falls."""

    def rule(name, value, gradient, memory, step):
        gradient = gradient + (0.01 * value if name == "kernel" else 0)
        rate = 0.1 * 0.5 ** (step // 6)
        memory["ms"] = 0.9 * memory.get("ms", 1.0) + 0.1 * gradient**2
        memory["mom"] = 0.9 * memory.get("mom", 0.0) + rate * gradient / np.sqrt(memory["ms"] + 0.001)
        return value - memory["mom"]

    config = Optimizer(
        0.1, "exponential", momentum=0.9, weight_decay=0.01, rule="rmsprop", decay_factor=0.5, decay_every_steps=6
    )
    assert_close(descend(config), descend_by_hand(rule))


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_lars_is_the_papers(decay):
    """You et al. (2017): v ← m v + γ η ‖θ‖ / ‖∇ + λθ‖ (∇ + λθ); with λ = 0 that is their Algorithm 1 to the letter."""

    def rule(name, value, gradient, memory, step):
        rate = 2.0 * (1 + np.cos(np.pi * step / STEPS)) / 2
        if name == "kernel":
            gradient = gradient + decay * value
            rate *= 0.02 * np.linalg.norm(value) / np.linalg.norm(gradient)
        memory["v"] = 0.9 * memory.get("v", 0.0) + rate * gradient
        return value - memory["v"]

    config = Optimizer(2.0, "cosine", momentum=0.9, weight_decay=decay, rule="lars", trust_coefficient=0.02)
    assert_close(descend(config), descend_by_hand(rule))


def test_lars_scales_each_block_of_a_stack_by_itself():
    theta = jnp.arange(1.0, 13).reshape(3, 2, 2)
    g = jnp.sin(theta) + 0.1
    update = build(Optimizer(2.0, momentum=0.9, rule="lars"), 10)

    @jax.jit
    def after(params, gradient):
        return update.update(gradient, update.init(params), params)[0]

    stack = after({"stage1_blocks": {"kernel": theta}}, {"stage1_blocks": {"kernel": g}})["stage1_blocks"]["kernel"]
    for i in range(3):
        alone = after({"kernel": theta[i]}, {"kernel": g[i]})["kernel"]
        np.testing.assert_allclose(stack[i], alone, rtol=1e-6)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_nesterov_with_decay_that_goes_by_name(all_of_them):
    """TF's MomentumOptimizer: a ← m a + g; θ ← θ − lr (g + m a)."""

    def rule(name, value, gradient, memory, step):
        gradient = gradient + (0.1 * value if all_of_them or name == "kernel" else 0)
        memory["a"] = 0.9 * memory.get("a", 0.0) + gradient
        return value - 0.05 * (gradient + 0.9 * memory["a"])

    config = Optimizer(0.05, momentum=0.9, nesterov=True, weight_decay=0.1, decay_norm_and_bias=all_of_them)
    assert_close(descend(config), descend_by_hand(rule))


@pytest.mark.parametrize("every", [3, 141, 7919])
def test_the_stairs_fall_at_their_step_and_not_one_later(every):
    """Of these, 1 / 141 and 1 / 7919 round so that a float's ⌊every · (1 / every)⌋ is 0."""
    config = Optimizer(0.2, "exponential", decay_factor=0.97, decay_every_steps=every, warmup_steps=2)
    transform = build(config, 10)
    zero = transform.init(PARAMS)

    @jax.jit
    def rate(step):
        state = jax.tree.map(lambda leaf: step.astype(leaf.dtype), zero)
        return -transform.update(GRADIENT, state, PARAMS)[0]["bias"][0] / 1.2

    steps = np.array([0, 1, 2, every - 1, every, 2 * every - 1, 2 * every])
    expected = 0.2 * 0.97 ** (steps // every) * np.minimum(steps / 2, 1)
    np.testing.assert_allclose(jax.vmap(rate)(jnp.asarray(steps)), expected, rtol=1e-5)


@pytest.mark.parametrize("rule", ["sgd", "rmsprop", "lars"])
def test_the_feedback_can_pass_through_a_layer_without_gradient(rule):
    """MPL differentiates the update: a dead layer must not make that 0 / 0."""
    transform = build(Optimizer(momentum=0.9, rule=rule), 10)
    state = transform.init(PARAMS)
    dead = jax.tree.map(jnp.zeros_like, GRADIENT)
    _, pull_back = jax.vjp(lambda gradient: transform.update(gradient, state, PARAMS)[0], dead)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(pull_back(GRADIENT)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Optimizer(schedule="exponential"), "'exponential' needs decay_every_steps above 0"),
        (Optimizer(rule="rmsprop", momentum=0.9, nesterov=True), "nesterov cannot be combined with rule 'rmsprop'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        validate(config)
