"""A fit on its way up: what all steps of the ladder share."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from metapl.fit import rung as rungs
from metapl.fit.clock import Clock
from metapl.fit.encoded import Encoded
from metapl.fit.plan import Plan
from metapl.fit.request import Request
from metapl.fit.rung import Rung
from metapl.system import signals
from metapl.system.signals import Stop
from metapl.system.terminal import sayer

Check = Callable[[], None]  # called between two pieces of work; may raise Stopped

FOR_THE_VERDICT_S = 8.0  # kept for the verdict and the page,
SHARE_FOR_THE_VERDICT = 0.1  # but at most this share of the budget


@dataclass
class Climb:
    """A fit on its way up."""

    out: Path
    request: Request
    facts: dict[str, Any]
    clock: Clock
    console: Console
    plan: Plan
    encoded: Encoded | None = None
    companions: list[Any] | None = None  # features by other pretrained networks (companions.py), once they are there
    only_foreign: bool = False  # no unlabelled picture looks like the labelled ones
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # rung -> why there was too little time
    not_tried: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # rung -> why, and more time would not change it, but another machine would
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)  # rung -> why, and neither would change it

    def say(self, text: str) -> None:
        """Print a sentence."""
        sayer(self.console)(text)

    @property
    def features(self) -> Encoded:
        """The features; there are some before the first rung."""
        assert self.encoded is not None
        return self.encoded

    @property
    def left_s(self) -> float:
        """Seconds that are left for rungs; negative if the verdict is due."""
        return self.clock.left_s - min(FOR_THE_VERDICT_S, SHARE_FOR_THE_VERDICT * self.clock.budget_s)

    @property
    def has_unlabeled(self) -> bool:
        """Whether there are unlabelled pictures, and not all of them are foreign."""
        return bool(self.facts["unlabeled"]) and not self.only_foreign

    def rungs(self) -> list[Rung]:
        """The rungs that are finished."""
        return [rungs.read(self.out, name) for name in rungs.climbed(self.out)]


@contextmanager
def listening(climb: Climb) -> Iterator[Stop]:
    """Note signals, and the end of the budget, while the block runs."""
    with signals.listening(climb.say) as stop:
        yield stop
