"""Flags for the settings of the source that a command names."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from metapl.cli.flags import parse
from metapl.data import open_source
from metapl.data.sources.source import PictureConfig

T = TypeVar("T")


class NamesSource(Protocol):
    """Flags of a verb whose one word is a source."""

    @property
    def source(self) -> str:
        """What the user calls the source."""


def named_source(cls: type[NamesSource], prog: str, verb: Callable[..., None], args: Sequence[str]) -> PictureConfig:
    """Return the settings of the source that the command names; settings as flags need its name as the first word."""
    is_first = bool(args) and not args[0].startswith("-")
    return open_source.settings_of(args[0] if is_first else parse(cls, prog, verb, args).source)


def with_defaults(flags: type[T], **defaults: Any) -> type[T]:
    """Return a class of flags with other defaults, or with more fields."""
    fields = [(name, type(value), dataclasses.field(default=value)) for name, value in defaults.items()]
    return dataclasses.make_dataclass(flags.__name__, fields, bases=(flags,), frozen=True)
