"""Meta Pseudo Labels on TwoMoon, whole, in one file: no framework, only jax.grad.

    python examples/two_moons.py [--feedback 0] [--steps 20000] [--seed 0]

A teacher T and a student S are small sigmoid networks with weights of their own. In every step:

    ŷ    ~ T(x_u; θ_T)                                       the teacher guesses labels for unlabelled points
    g    = ∇_{θ_S} CE(ŷ, S(x_u; θ_S))
    θ_S' = θ_S − η g                                         the student learns from the guesses only
    v    = ∇_{θ_S'} CE(y_l, S(x_l; θ_S'))                    then it is tested on the labelled points
    h    = cos(v, g) − b                                     was it right to teach ŷ? (b: a moving average)
    θ_T' = θ_T − η ∇_{θ_T} [ CE(y_l, T(x_l; θ_T)) + h · CE(ŷ, T(x_u; θ_T)) ]

`--feedback 0` sets h to 0: then a student copies a supervised teacher. That is the control.
The package's `metapl/algorithms/mpl.py` must take the same step as `mpl_step` here; a test says so.
"""

import argparse
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import make_moons

Layers = list[tuple[jax.Array, jax.Array]]  # of a network: (weights [inputs, outputs], biases [outputs])
State = tuple[Layers, Layers, jax.Array]  # teacher, student, and the moving average b

RATE = 0.1  # η: the paper's constant learning rate
BASELINE_DECAY = 0.99


def two_moons(seed: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """2,000 points, their classes, and the indices of the six that are labelled."""
    draw = np.random.RandomState(seed)
    points, classes = make_moons(2000, noise=noise, random_state=draw)
    labeled = np.concatenate([draw.choice(np.flatnonzero(classes == c), 3, False) for c in (0, 1)])
    return points.astype(np.float32), classes, labeled


def new_network(key: jax.Array, sizes: tuple[int, ...] = (2, 8, 8, 2)) -> Layers:
    """Weights and biases uniform in ±0.1."""
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        key, weight_key, bias_key = jax.random.split(key, 3)
        weights = jax.random.uniform(weight_key, (inputs, outputs), minval=-0.1, maxval=0.1)
        layers.append((weights, jax.random.uniform(bias_key, (outputs,), minval=-0.1, maxval=0.1)))
    return layers


def logits(network: Layers, x: jax.Array) -> jax.Array:
    """[N, 2] → [N, classes]; sigmoids between the layers."""
    *hidden, (weights, biases) = network
    for w, b in hidden:
        x = 1 / (1 + jnp.exp(-(x @ w + b)))
    return x @ weights + biases


def cross_entropy(network: Layers, x: jax.Array, y: jax.Array) -> jax.Array:
    """CE(y, network(x)), the mean over the batch."""
    z = logits(network, x)
    log_probabilities = z - jnp.log(jnp.sum(jnp.exp(z), axis=1, keepdims=True))
    return -jnp.mean(log_probabilities[jnp.arange(len(y)), y])


def sgd(network: Layers, gradient: Layers, rate: float) -> Layers:
    """θ' = θ − η g."""
    return [(w - rate * gw, b - rate * gb) for (w, b), (gw, gb) in zip(network, gradient, strict=True)]


def cosine(a: Layers, b: Layers) -> jax.Array:
    """⟨a, b⟩ / (‖a‖ ‖b‖), over all weights as one long vector."""
    flat_a, flat_b = (jnp.concatenate([jnp.ravel(part) for layer in net for part in layer]) for net in (a, b))
    return flat_a @ flat_b / (jnp.linalg.norm(flat_a) * jnp.linalg.norm(flat_b))


def mpl_step(
    state: State,
    x_l: jax.Array,  # [B, 2]
    y_l: jax.Array,  # [B]
    x_u: jax.Array,  # [U, 2]
    guesses: jax.Array,  # [U] ŷ ~ T(x_u; θ_T)
    feedback_weight: float = 1.0,
    rate: float = RATE,
) -> tuple[State, jax.Array]:
    """Take one step of the method: (θ_T', θ_S', b') and cos."""
    teacher, student, baseline = state
    g = jax.grad(cross_entropy)(student, x_u, guesses)
    new_student = sgd(student, g, rate)
    v = jax.grad(cross_entropy)(new_student, x_l, y_l)
    cos = cosine(v, g)
    h = feedback_weight * (cos - baseline)

    def teacher_loss(teacher: Layers) -> jax.Array:
        return cross_entropy(teacher, x_l, y_l) + h * cross_entropy(teacher, x_u, guesses)

    new_teacher = sgd(teacher, jax.grad(teacher_loss)(teacher), rate)
    return (new_teacher, new_student, BASELINE_DECAY * baseline + (1 - BASELINE_DECAY) * cos), cos


@partial(jax.jit, static_argnames="steps")
def train(
    key: jax.Array, x_l: jax.Array, y_l: jax.Array, x_u: jax.Array, feedback_weight: float, steps: int
) -> tuple[Layers, Layers]:
    """Start both networks and take all steps; each sees all labelled and 64 unlabelled points."""
    teacher_key, student_key, step_key = jax.random.split(key, 3)

    def step(i: int, state: State) -> State:
        batch_key, guess_key = jax.random.split(jax.random.fold_in(step_key, i))
        batch = x_u[jax.random.randint(batch_key, (64,), 0, len(x_u))]
        guesses = jax.random.categorical(guess_key, logits(state[0], batch))
        return mpl_step(state, x_l, y_l, batch, guesses, feedback_weight)[0]

    start = (new_network(teacher_key), new_network(student_key), jnp.zeros(()))
    teacher, student, _ = jax.lax.fori_loop(0, steps, step, start)
    return teacher, student


def main() -> None:
    """Train once and print how many of the 2,000 points each network gets right."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    flags.add_argument("--feedback", type=float, default=1.0, help="factor of h; 0 is the control")
    flags.add_argument("--steps", type=int, default=20000)
    flags.add_argument("--seed", type=int, default=0)
    args = flags.parse_args()
    points, classes, labeled = two_moons(args.seed)
    x_l, y_l, x_u = points[labeled], classes[labeled], np.delete(points, labeled, axis=0)
    networks = train(jax.random.key(args.seed), x_l, y_l, x_u, args.feedback, args.steps)
    for name, network in zip(("teacher", "student"), networks, strict=True):
        accuracy = np.mean(np.argmax(logits(network, jnp.asarray(points)), axis=1) == classes)
        print(f"{name}: {accuracy:.1%} of 2,000 points right")


if __name__ == "__main__":
    main()
