"""The side of steps.py that drives the `train_loop` of MPL-pytorch, from a clone of that repository.

    python benchmarks/mpl_pytorch_steps.py SETTINGS

Its loop, networks and losses run unchanged on the CPU, on noise that is in memory. Empty stand-ins replace its file
`data.py` (which needs torchvision) and TensorBoard: the loop does not need them. Its weight average, clipping and
dropout are off, because our side of this comparison does not have them either.
"""

import argparse
import importlib
import itertools
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from turns import serve

from metapl.system import runtime

NEVER = 10**9  # steps until the loop evaluates


class Batches:
    """A loader whose every batch is the same; the loop asks its iterator with the method `next`."""

    def __init__(self, batch: tuple[Any, torch.Tensor]) -> None:
        self.batch = batch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[Any, torch.Tensor]:
        return self.batch

    next = __next__


class NoWriter:
    """Writes nothing."""

    def add_scalar(self, *_: object) -> None:
        """Ignore a number."""


def import_loop(checkout: Path) -> tuple[Any, Any, Any]:
    """Import the modules main, models and utils of the clone."""
    if not (checkout / "main.py").is_file():
        sys.exit(f"{checkout} has no main.py: give the folder of a clone of kekmodel/MPL-pytorch")
    sys.path.insert(0, str(checkout))
    sys.modules["data"] = types.SimpleNamespace(DATASET_GETTERS={})  # type: ignore[assignment]
    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=NoWriter)  # type: ignore[assignment]
    main, models, utils = (importlib.import_module(name) for name in ("main", "models", "utils"))
    vars(main)["tqdm"] = quiet_bar
    return main, models, utils


def quiet_bar(steps: Any, **_: object) -> Any:
    """A progress bar that shows nothing."""
    return types.SimpleNamespace(set_description=lambda *_: None, update=lambda *_: None, close=lambda: None)


def loop(settings: dict[str, Any]) -> tuple[nn.Module, Callable[[int], None]]:
    """The student, and a function that runs so many steps of the loop."""
    main, models, utils = import_loop(Path(settings["checkout"]))
    args = argparse.Namespace(
        device=torch.device("cpu"), world_size=1, local_rank=-1, amp=False, start_step=0, eval_step=NEVER,
        num_classes=settings["classes"], dense_dropout=0, label_smoothing=0.0, grad_clip=0.0, ema=0.0,
        temperature=settings["uda_temperature"], threshold=0.6, lambda_u=settings["uda_weight"], uda_steps=1,
        writer=NoWriter(), best_top1=0.0,
    )  # fmt: skip
    fields = settings["fields"]
    teacher, student = (models.build_wideresnet(args, fields["depth"], fields["width"]) for _ in range(2))
    optimizers = [
        torch.optim.SGD(
            model.parameters(),
            settings["rate"],
            settings["momentum"],
            weight_decay=settings["decay"],
            nesterov=True,
        )
        for model in (teacher, student)
    ]
    schedules = [main.get_cosine_schedule_with_warmup(optimizer, 0, NEVER) for optimizer in optimizers]
    scalers = [torch.amp.GradScaler("cpu", enabled=False) for _ in optimizers]
    labels = torch.arange(settings["batch"]) % settings["classes"]
    labeled = Batches((pictures(settings, settings["batch"]), labels))
    views = tuple(pictures(settings, settings["unlabeled_batch"]) for _ in range(2))
    unlabeled = Batches((views, labels))
    criterion = utils.create_loss_fn(args)

    def work(times: int) -> None:
        args.total_steps = times
        parts = itertools.chain((teacher, student, None, criterion), optimizers, schedules, scalers)
        main.train_loop(args, labeled, unlabeled, None, *parts)

    return student, work


def pictures(settings: dict[str, Any], number: int) -> torch.Tensor:
    """Normal noise, channels first, as its own loaders give it."""
    return torch.randn(number, 3, settings["size"], settings["size"])


def main(settings: dict[str, Any]) -> None:
    """Take turns."""
    torch.manual_seed(0)
    torch.set_num_threads(runtime.cores())
    student, work = loop(settings)
    about = {
        "parameters": sum(p.numel() for p in student.parameters()),
        "gflop": None,  # its feedback is a loss difference, ours a cosine: not the same work
        "forward_gflop": None,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    serve(about, work)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
