"""100 TwoMoon data sets × 3 methods, compared with a plain PyTorch loop over the same work.

    python benchmarks/two_moons.py [--datasets 100] [--repeats 5]

The loop is a usual one for a single data set, in eager PyTorch. It is timed on one data set, for a number of steps, and
its time is multiplied by the number of data sets. Both sides use the same networks, batches and losses (cosine feedback
for MPL). Machines are noisy, so both are measured in turn, `--repeats` times, and the median of the ratios is printed.
Without PyTorch, only our own steps per second are printed.
"""

import argparse
import dataclasses
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from metapl import config as configs
from metapl import data, models
from metapl.train import feeding, program

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
if torch:
    torch.set_num_threads(1)  # the fastest for such small networks; more threads only wait for each other

METHODS = ("supervised", "pseudo_labels", "mpl")
BATCH = 64
RATE = 0.1


def ours(method: str, datasets: int, steps: int) -> Callable[[], float]:
    """Seconds for one step of all data sets at once, as the package trains them (compiled beforehand)."""
    text = f'[[stages]]\n[[stages]]\nunlabeled_batch = {BATCH}\nmethod.name = "{method}"'
    config = configs.parse(text, "benchmark")
    stage = dataclasses.replace(config.stages[-1], steps=10**6)
    resident = feeding.to_device(data.load(config.data, list(range(datasets)), ()), own_data=datasets > 1)
    network = models.build(config.model, classes=2)
    keys = jnp.stack([jax.random.key(seed) for seed in range(datasets)])
    start = jax.vmap(network.init)(keys, resident.labeled)
    init, zeros, advance, *_ = program.stage_functions(config, stage, network, own_data=datasets > 1)
    state = init(keys, start, None, resident, None)
    totals = zeros(state, keys, None, resident)
    state = jax.block_until_ready(advance(state, totals, keys, None, resident, 0, 1)[0])

    def measure() -> float:
        nonlocal state
        begin = time.perf_counter()
        state = jax.block_until_ready(advance(state, totals, keys, None, resident, 0, steps)[0])
        return (time.perf_counter() - begin) / steps

    return measure


def new_torch_network() -> Any:
    """2→8→8→2 with sigmoids."""
    nn = torch.nn
    layers = (nn.Linear(2, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 2))
    return nn.Sequential(*layers)


def torch_step(method: str) -> Callable[[], None]:
    """One step of a plain loop on one data set."""
    (moons,) = data.load(configs.Config().data, [0], ())
    x_l, y_l = torch.tensor(moons.labeled), torch.tensor(moons.labels, dtype=torch.long)
    x_u = torch.tensor(moons.unlabeled)
    cross_entropy = torch.nn.functional.cross_entropy
    teacher, student = new_torch_network(), new_torch_network()
    teacher_sgd = torch.optim.SGD(teacher.parameters(), lr=RATE)
    student_sgd = torch.optim.SGD(student.parameters(), lr=RATE)
    baseline = torch.zeros(())

    def descend(optimizer: Any, loss: Any) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def draw() -> Any:
        return x_u[torch.randint(len(x_u), (BATCH,))]

    def supervised() -> None:
        descend(student_sgd, cross_entropy(student(x_l), y_l))

    def pseudo_labels() -> None:
        x = draw()
        with torch.no_grad():
            labels = teacher(x).argmax(1)
        descend(student_sgd, cross_entropy(student(x), labels))

    def mpl() -> None:
        nonlocal baseline
        x = draw()
        logits = teacher(x)
        labels = torch.distributions.Categorical(logits=logits.detach()).sample()
        descend(student_sgd, cross_entropy(student(x), labels))
        g = torch.cat([p.grad.flatten() for p in student.parameters()])
        v = torch.autograd.grad(cross_entropy(student(x_l), y_l), list(student.parameters()))
        h = torch.nn.functional.cosine_similarity(torch.cat([part.flatten() for part in v]), g, dim=0)
        feedback = (h - baseline) * cross_entropy(logits, labels)
        baseline = 0.99 * baseline + 0.01 * h
        descend(teacher_sgd, cross_entropy(teacher(x_l), y_l) + feedback)

    return {"supervised": supervised, "pseudo_labels": pseudo_labels, "mpl": mpl}[method]


def theirs(method: str, datasets: int, steps: int) -> Callable[[], float]:
    """Seconds that the loop would take for one step on every data set."""
    step = torch_step(method)

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        return datasets * (time.perf_counter() - begin) / steps

    return measure


def main() -> None:
    """Measure in turn and print the medians and the ratios."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    flags.add_argument("--datasets", type=int, default=100)
    flags.add_argument("--repeats", type=int, default=5)
    args = flags.parse_args()
    totals: list[tuple[float, float]] = [(0.0, 0.0)] * args.repeats
    print(f"{args.datasets} data sets, {BATCH} unlabelled points a step; ms for one step of all data sets")
    for method in METHODS:
        mine = ours(method, args.datasets, steps=1000)
        other = theirs(method, args.datasets, steps=300) if torch else None
        pairs = [(mine(), other() if other else float("nan")) for _ in range(args.repeats)]
        totals = [(a + c, b + d) for (a, b), (c, d) in zip(totals, pairs, strict=True)]
        report(method, pairs)
    report("all three", totals)


def report(name: str, pairs: list[tuple[float, float]]) -> None:
    """One line: both medians, and the median ratio with its range."""
    mine, other = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = sorted(b / a for a, b in pairs)
    text = f"{other:9.2f} ms PyTorch, {statistics.median(ratios):.0f}× [{ratios[0]:.0f}, {ratios[-1]:.0f}]"
    print(
        f"{name:<14}{mine:8.3f} ms metapl ({1000 / mine:,.0f} steps/s) {text if torch else '(PyTorch not installed)'}"
    )


if __name__ == "__main__":
    main()
