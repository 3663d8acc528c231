"""Compare our training steps with the same steps in plain PyTorch, measured in turn; the result is a ratio.

    python benchmarks/steps.py --all                                      # the table in docs/speed.md
    python benchmarks/steps.py --model wide_resnet --batch 64 128 --rounds 15
    python benchmarks/steps.py --method mpl --batch 16 --unlabeled 1 7
    python benchmarks/steps.py --model resnet50 --size 64 --batch 16 --classes 1000
    python benchmarks/steps.py --checkout ~/MPL-pytorch --batch 16 --unlabeled 1 7   # against its own train_loop

A ratio of 1.2 says that we are 1.2 times as fast. Both sides use float32, all cores, the same network, batch, loss and
optimizer (Nesterov 0.9, weight decay). Parameters and FLOPs, which each side counts itself, must agree, to make sure
that both do the same work. Nothing else should run at the same time.
"""

import argparse
import contextlib
import importlib.util
import json
import signal
import sys
from pathlib import Path
from typing import Any

from turns import Side, compare

HERE = Path(__file__).parent
MODELS: dict[str, tuple[str, dict[str, Any]]] = {  # name here -> our name, its fields
    "wide_resnet": ("wide_resnet", {"depth": 28, "width": 2}),
    "wide_resnet_10_1": ("wide_resnet", {"depth": 10, "width": 1}),
    "resnet18": ("resnet", {"depth": 18}),
    "resnet50": ("resnet", {"depth": 50}),
    "efficientnet_b0": ("efficientnet", {"variant": "b0", "dropout": 0.0, "survival": 1.0, "padding": "symmetric"}),
}
TABLE = (  # model, method, labelled, unlabelled, size, classes: the rows of docs/speed.md
    ("wide_resnet", "supervised", 64, 0, 32, 10),
    ("wide_resnet", "supervised", 128, 0, 32, 10),
    ("resnet50", "supervised", 16, 0, 64, 1000),
    ("efficientnet_b0", "supervised", 16, 0, 64, 1000),
    ("wide_resnet", "mpl", 16, 16, 32, 10),
    ("wide_resnet", "mpl", 16, 112, 32, 10),
)
OPTIMIZER = {"rate": 0.03, "momentum": 0.9, "decay": 5e-4}
UDA = {"uda_weight": 8.0, "uda_temperature": 0.7}
SAME_WORK = 0.01  # largest relative difference between the two counts of FLOPs


def main() -> None:
    """Measure one case after the other, each with two new processes."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--all", action="store_true", help="measure every row of the table in docs/speed.md")
    flags.add_argument("--model", choices=MODELS, default="wide_resnet")
    flags.add_argument("--method", choices=("supervised", "mpl"), default="supervised")
    flags.add_argument("--batch", type=int, nargs="+", default=[64, 128], help="labelled pictures in a step")
    flags.add_argument("--unlabeled", type=int, nargs="+", default=[1], help="mpl: unlabelled for each labelled one")
    flags.add_argument("--checkout", type=Path, help="a clone of kekmodel/MPL-pytorch: drive its own train_loop")
    flags.add_argument("--size", type=int, default=32)
    flags.add_argument("--classes", type=int, default=10)
    flags.add_argument("--rounds", type=int, default=15)
    flags.add_argument("--json", type=Path, help="also write all times to this new file")
    args = flags.parse_args()
    if importlib.util.find_spec("torch") is None:
        sys.exit("this comparison needs PyTorch: pip install '.[bench]'")
    if args.checkout and (args.all or not args.model.startswith("wide_resnet")):
        sys.exit("--checkout goes with a wide_resnet, the network of MPL-pytorch, and without --all")
    if args.json and args.json.exists():
        sys.exit(f"{args.json} already exists; choose another name")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # so that the children are closed, too
    method = "mpl" if args.checkout else args.method
    ratios = args.unlabeled if method == "mpl" else [0]
    chosen = [
        (args.model, method, batch, batch * ratio, args.size, args.classes) for batch in args.batch for ratio in ratios
    ]
    results = [measure(case, args.rounds, args.checkout) for case in (TABLE if args.all else chosen)]
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def measure(case: tuple[str, str, int, int, int, int], rounds: int, checkout: Path | None) -> dict[str, Any]:
    """Measure one case: start two children, check that they do the same work, do the rounds, print a line."""
    model, method, batch, unlabeled_batch, size, classes = case
    network, fields = MODELS[model]
    settings = {
        "network": network,
        "fields": fields,
        "method": method,
        "batch": batch,
        "unlabeled_batch": unlabeled_batch,
        "size": size,
        "classes": classes,
        **OPTIMIZER,
        **UDA,
        "checkout": checkout and str(checkout),
    }
    their_script = "mpl_pytorch_steps.py" if checkout else "torch_steps.py"
    with contextlib.ExitStack() as children:  # a stopped child never ends by itself, so both must be closed
        ours = children.enter_context(contextlib.closing(Side(HERE / "jax_steps.py", settings)))
        theirs = children.enter_context(contextlib.closing(Side(HERE / their_script, settings)))
        refuse_other_work(ours.about, theirs.about)
        result = compare(ours, theirs, rounds)
    show(model, settings, ours.about, result)
    return {"settings": settings, "rounds": rounds, "ours": ours.about, "theirs": theirs.about, **result}


def refuse_other_work(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Stop if the two sides do not compute the same."""
    if ours["parameters"] != theirs["parameters"]:
        sys.exit(f"the networks differ: {ours['parameters']:,} parameters against {theirs['parameters']:,}")
    for name, work in (("networks", "forward_gflop"), ("steps", "gflop")):
        if theirs[work] is not None and abs(ours[work] / theirs[work] - 1) > SAME_WORK:
            sys.exit(f"the {name} differ: {ours[work]:.3f} GFLOP against {theirs[work]:.3f}")


def show(name: str, settings: dict[str, Any], about: dict[str, Any], result: dict[str, Any]) -> None:
    """One line of the table."""
    ratio, ours, theirs = result["ratio"], result["ours_s"], result["theirs_s"]
    used, opponent = result["processor"], "MPL-pytorch" if settings["checkout"] else "PyTorch"
    batch = f"{settings['batch']}" + (f"+{settings['unlabeled_batch']}" if settings["unlabeled_batch"] else "")
    print(
        f"{name} {settings['method']}, batch {batch}, {settings['size']}×{settings['size']}: "
        f"{ratio['median']:.2f}× [{ratio['low']:.2f}, {ratio['high']:.2f}], best against best {ratio['of_best']:.2f}×; "
        f"metapl {1e3 * ours['median']:.0f} ms (best {1e3 * ours['best']:.0f}, "
        f"{about['gflop'] / ours['best']:.0f} GFLOP/s), "
        f"{opponent} {1e3 * theirs['median']:.0f} ms (best {1e3 * theirs['best']:.0f}); "
        f"processor time {used['ratio']['median']:.2f}× [{used['ratio']['low']:.2f}, {used['ratio']['high']:.2f}], "
        f"{1e3 * used['ours_s']['median']:.0f} and {1e3 * used['theirs_s']['median']:.0f} ms; "
        f"convolutions by {'oneDNN' if about['onednn'] else 'XLA'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
