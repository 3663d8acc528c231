"""The cost of an MPL step compared with its forward and backward passes alone, and of each estimator of the feedback.

    python benchmarks/mpl_step.py [--batch 16] [--unlabeled-batch 112] [--rounds 9]

`passes` is a program with only MPL's passes on the same pictures: the teacher forward and backward over [labelled,
weak, strong], the student over the unlabelled pictures, and over the labelled ones for the cosine. The steps are the
package's own, with a UDA teacher and Nesterov. All programs run in turn, in one process. Columns: milliseconds
(median), and the median ratios within a round to `passes` and to the step with the loss difference.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal, get_args

import jax

from metapl import models
from metapl.algorithms.feedback import Feedback
from metapl.algorithms.losses import cross_entropy
from metapl.algorithms.mpl import MPL
from metapl.algorithms.uda import Consistency, Passes, forward
from metapl.bench import program
from metapl.bench.settings import Bench
from metapl.models.wide_resnet import WideResNet
from metapl.optim import Optimizer
from metapl.system import runtime
from metapl.types import Array, PyTree, Views, Weights

Name = Literal["cosine", "finite_difference", "dot", "per_example", "none"]
ESTIMATORS: tuple[Name, ...] = get_args(Name)
Work = Callable[[], Any]


def step(bench: Bench, batch: int) -> Work:
    """The package's own step, compiled; it donates its state each time."""
    case = program.build(bench, batch)
    state = case.init(case.key, case.views)

    def work() -> Any:
        nonlocal state
        state, metrics = case.step(state, case.views, case.key)
        return state, metrics

    return work


def passes(bench: Bench, batch: int, passing: Passes) -> Work:
    """The same passes and nothing else: gradients come out, so that none of them can be left out."""
    network = models.build(bench.model, bench.classes)
    views = program.random_views(bench, batch, jax.random.key(0))

    def student_gradient(student: Weights, inputs: Array, targets: Array) -> PyTree:
        def loss(params: PyTree) -> Array:
            return cross_entropy(targets, network.apply(params, student.stats, inputs, train=True)[0])

        return jax.grad(loss)(student.params)

    def all_passes(teacher: Weights, student: Weights, views: Views) -> PyTree:
        def teacher_logits(params: PyTree) -> list[Array]:
            shown = (views.labeled, views.weak, views.strong)
            return forward(passing, network, params, teacher.stats, shown, jax.random.key(0))[0]

        logits, backward = jax.vjp(teacher_logits, teacher.params)
        on_unlabeled = student_gradient(student, views.weak, jax.nn.softmax(logits[1]))
        on_labeled = student_gradient(student, views.labeled, views.labels)
        return backward(logits), on_unlabeled, on_labeled

    teacher, student = (network.init(jax.random.key(seed), views.labeled) for seed in (0, 1))
    compiled = jax.jit(all_passes)
    return lambda: compiled(teacher, student, views)


def seconds(work: Work) -> float:
    """Time one call."""
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def main() -> None:
    """Compile and warm up all programs, then measure them in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--unlabeled-batch", type=int, default=112)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--depth", type=int, default=28)
    parser.add_argument("--width", type=int, default=2)
    args = parser.parse_args()
    runtime.start()
    nesterov = Optimizer(0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    model = WideResNet(depth=args.depth, width=args.width)
    programs: dict[str, Work] = {}
    for passing in get_args(Passes):
        methods = {
            name: MPL(Feedback(name), consistency=Consistency(1.0), teacher=nesterov, student=nesterov, passes=passing)
            for name in ESTIMATORS
        }
        benches = {name: Bench(model, method, (args.batch,), args.unlabeled_batch) for name, method in methods.items()}
        programs[f"passes, {passing}"] = passes(benches["cosine"], args.batch, passing)
        for name in ESTIMATORS if passing == "one" else ESTIMATORS[:1]:
            programs[f"{name}, {passing}"] = step(benches[name], args.batch)
    for work in programs.values():
        seconds(work)
        seconds(work)
    rounds = [{name: seconds(work) for name, work in programs.items()} for _ in range(args.rounds)]
    batches = f"{args.batch} labelled and {args.unlabeled_batch} unlabelled"
    print(f"WRN-{args.depth}-{args.width}, {batches}, {args.rounds} rounds")
    for title in programs:
        each = statistics.median(times[title] for times in rounds)
        ratios = [
            statistics.median(times[title] / times[other] for times in rounds)
            for other in (f"passes, {title.split(', ')[1]}", "finite_difference, one")
        ]
        print(f"{title:<24}{1e3 * each:9.1f} ms{ratios[0]:8.3f}{ratios[1]:8.3f}")


if __name__ == "__main__":
    main()
