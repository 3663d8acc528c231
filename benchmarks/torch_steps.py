"""The PyTorch side of steps.py: the same training steps in plain PyTorch, eager, channels-last.

    python benchmarks/torch_steps.py SETTINGS

Written for comparison only, and to be fast: channels-last tensors and weights, gradients set to None, the fused
optimizer, one thread for each core, no value read back from a tensor within a step.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch_networks
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode
from turns import serve

from metapl.system import runtime

# With PyTorch's own padding: TensorFlow's would need a copy before each strided convolution.
NETWORKS: dict[str, Callable[..., nn.Module]] = {  # metapl's name -> a function that makes the same network here
    "wide_resnet": torch_networks.wide_resnet,
    "resnet": lambda depth, classes: {18: torch_networks.resnet18, 50: torch_networks.resnet50}[depth](classes),
    "efficientnet": lambda classes, padding, **_: torch_networks.efficientnet(classes=classes, padding=padding),
}


def network(settings: dict[str, Any]) -> nn.Module:
    """A new network in training mode."""
    made = NETWORKS[settings["network"]](classes=settings["classes"], **settings["fields"])
    return made.train().to(memory_format=torch.channels_last)


def nesterov(settings: dict[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    """Nesterov without weight decay for biases and scales, as in metapl."""
    kernels = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": kernels, "weight_decay": settings["decay"]}, {"params": others}]
    return torch.optim.SGD(groups, settings["rate"], settings["momentum"], nesterov=True, fused=True)


def pictures(settings: dict[str, Any], number: int) -> Tensor:
    """Normal noise."""
    shape = (number, 3, settings["size"], settings["size"])
    return torch.randn(shape).to(memory_format=torch.channels_last)


def supervised(settings: dict[str, Any]) -> tuple[nn.Module, Callable[[], None]]:
    """Forward, cross-entropy, backward, Nesterov."""
    model = network(settings)
    optimizer = nesterov(settings, model)
    images = pictures(settings, settings["batch"])
    labels = torch.arange(settings["batch"]) % settings["classes"]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(model(images), labels).backward()
        optimizer.step()

    return model, step


def mpl(settings: dict[str, Any]) -> tuple[nn.Module, Callable[[], None]]:
    """Meta Pseudo Labels with the cosine feedback and a UDA teacher: one pass of the teacher over all three views."""
    teacher, student = network(settings), network(settings)
    teacher_sgd, student_sgd = nesterov(settings, teacher), nesterov(settings, student)
    labeled = pictures(settings, settings["batch"])
    labels = torch.arange(settings["batch"]) % settings["classes"]
    weak, strong = (pictures(settings, settings["unlabeled_batch"]) for _ in range(2))
    sizes = [len(labeled), len(weak), len(strong)]
    weights = list(student.parameters())
    baseline = torch.zeros(())

    def step() -> None:
        nonlocal baseline
        of_labeled, of_weak, of_strong = teacher(torch.cat((labeled, weak, strong))).split(sizes)
        soft = torch.softmax(of_weak.detach(), 1)
        pseudo_labels = torch.multinomial(soft, 1).squeeze(1)

        student_sgd.zero_grad(set_to_none=True)
        cross_entropy(student(weak), pseudo_labels).backward()
        gradient = [p.grad for p in weights if p.grad is not None]
        student_sgd.step()

        labeled_gradient = torch.autograd.grad(cross_entropy(student(labeled), labels), weights)
        h = cosine(labeled_gradient, gradient)
        target = torch.softmax(of_weak.detach() / settings["uda_temperature"], 1)
        loss = cross_entropy(of_labeled, labels) + (h - baseline) * cross_entropy(of_weak, pseudo_labels)
        loss = loss + settings["uda_weight"] * cross_entropy(of_strong, target)
        baseline = 0.99 * baseline + 0.01 * h
        teacher_sgd.zero_grad(set_to_none=True)
        loss.backward()
        teacher_sgd.step()

    return student, step


def cosine(ours: Any, theirs: Any) -> Tensor:
    """The cosine of two lists of tensors, each taken as one long vector."""
    dot = torch.stack([torch.sum(a * b) for a, b in zip(ours, theirs, strict=True)]).sum()
    lengths = [torch.stack(torch._foreach_norm(tensors)).norm() for tensors in (ours, theirs)]
    return dot / (lengths[0] * lengths[1])


def gflop(function: Callable[[], object]) -> float:
    """GFLOP of a call."""
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops() / 1e9


METHODS = {"supervised": supervised, "mpl": mpl}


def main(settings: dict[str, Any]) -> None:
    """Count once, then take turns."""
    torch.manual_seed(0)
    torch.set_num_threads(runtime.cores())
    model, step = METHODS[settings["method"]](settings)
    inputs = pictures(settings, settings["batch"])
    # PyTorch counts the gradient of a grouped convolution as if it had one group: then give no count.
    countable = all(getattr(module, "groups", 1) == 1 for module in model.modules())

    def work(times: int) -> None:
        for _ in range(times):
            step()

    about = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "gflop": gflop(step) if countable else None,
        "forward_gflop": gflop(lambda: model(inputs)),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    serve(about, work)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
