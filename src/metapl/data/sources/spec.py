"""Names of splits: `cifar10`, `cifar10-4k`, `imagenet-10`, `imagenet-100-val20`, `cifar10@4000#1`."""

import re
from typing import NamedTuple

from metapl.schema import ConfigError

# The paper's own splits (Appendices C.1 and E), each with its source.
_IMAGENET = [f"imagenet-{percent}{held_out}" for held_out in ("", "-val20") for percent in (10, 20, 40, 80, 100)]
PAPER = {"cifar10-4k": "cifar10", "svhn-1k": "svhn", "svhn-val7300": "svhn"} | dict.fromkeys(
    [*_IMAGENET, "imagenet-100-val40"], "tfrecord"
)

_BALANCED = re.compile(r"(?P<source>\w+)@(?P<labels>[0-9]+)#(?P<seed>[0-9]+)")
_HELP = f"a source's name, one of {', '.join(PAPER)}, or source@labels#seed as in cifar10@4000#1"


class Spec(NamedTuple):
    """The parts of a split's name."""

    text: str
    source: str
    labels: int | None = None
    """The total of labels, the same for each class; None unless the name is source@labels#seed."""
    seed: int = 0


def parse_spec(text: str) -> Spec:
    """Parse a split's name; a source's name alone means the source's own division."""
    if text in PAPER:
        return Spec(text, PAPER[text])
    if match := _BALANCED.fullmatch(text):
        labels, seed = int(match["labels"]), int(match["seed"])
        if labels == 0:
            raise ConfigError(f"the split {text!r} has no labels; give at least one for each class")
        if seed >= 2**32:
            raise ConfigError(f"the split {text!r} has a seed above {2**32 - 1}")
        return Spec(text, match["source"], labels, seed)
    if re.fullmatch(r"\w+", text):
        return Spec(text, text)
    raise ConfigError(f"{text!r} is not a split; a split is {_HELP}")


def parse_for(text: str, source: str) -> Spec:
    """Parse a split's name, which must be of this source; "given" means the source's own division."""
    if text == "given":
        return Spec(source, source)
    spec = parse_spec(text)
    if spec.source != source:
        raise ConfigError(f"the split {text!r} is a split of the source {spec.source}, not of {source}")
    return spec
