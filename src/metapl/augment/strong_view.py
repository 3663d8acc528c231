"""The base of every kind of strong view's settings."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class StrongView:
    """How the strong view is made from the weak one; `name` is how files and flags call it."""

    name: ClassVar[str]
