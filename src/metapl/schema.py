"""Turn plain dicts (TOML) into frozen dataclasses and back, with errors that name the field and what it takes.

A field's annotation gives its type and, by `annotated_types`, its range: `temperature: Annotated[float, Gt(0)] = 1.0`.
A class may add `check()`, which checks fields against each other and raises ValueError.
If the annotation is a base class with several kinds (a method, a model), the key `name` chooses the kind.
A list in a file replaces the list before it; a table with numbers as keys changes single items of it.
"""

import dataclasses
import difflib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import annotated_types as limits

MOST_LETTERS = 200  # of a value in an error
T = TypeVar("T")
Kinds = Mapping[type, Mapping[str, type]]  # base class -> name -> dataclass


class ConfigError(ValueError):
    """A mistake of the user; its text is one sentence for them."""


@functools.cache
def _type_hints(cls: type, include_extras: bool = False) -> dict[str, Any]:
    """Return a class's annotations, which `get_type_hints` would evaluate anew each time."""
    return get_type_hints(cls, include_extras=include_extras)


def from_dict(cls: type[T], values: Any, kinds: Kinds, base: T | None = None, path: str = "") -> T:
    """Build `cls` from nested dicts; settings that `values` leaves out come from `base`, or else from the defaults."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path or 'the file'} takes a table of settings, got {_show(values)}")
    values = dict(values)
    base = _choose_base(cls, values, kinds, base, path)
    cls = type(base)
    values = _at_new_places(values, getattr(cls, "moved", {}))
    hints = _type_hints(cls)  # type: ignore[arg-type]  # mypy: a class is not hashable
    fields = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(_unknown(_join(path, str(key)), key, fields))
    read = {key: _read(hints[key], value, kinds, getattr(base, key), _join(path, key)) for key, value in values.items()}
    return dataclasses.replace(base, **read)  # type: ignore[type-var]


def to_dict(config: Any) -> dict[str, Any]:
    """Return nested dicts from which `from_dict` builds the same value; None is left out, since TOML has no None."""
    out: dict[str, Any] = {"name": config.name} if hasattr(type(config), "name") else {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is not None:
            out[field.name] = _plain(value)
    return out


def validate(config: Any, path: str = "") -> None:
    """Check every range and every `check()` in the tree; raise ConfigError for the first that fails."""
    hints = _type_hints(type(config), include_extras=True)  # type: ignore[arg-type]
    for field in dataclasses.fields(config):
        where, value = _join(path, field.name), getattr(config, field.name)
        _check_limits(hints[field.name], value, where)
        for place, child in _children(value, where):
            validate(child, place)
    if check := getattr(config, "check", None):
        try:
            check()
        except ValueError as error:
            raise ConfigError(f"{path}: {error}" if path else str(error)) from None


def _choose_base(cls: type[T], values: dict[str, Any], kinds: Kinds, base: T | None, path: str) -> T:
    """Return what the values change: the base, or the defaults of another kind if `name` in the file says so."""
    if cls not in kinds:
        return cls() if base is None else base
    name = values.pop("name", getattr(base, "name", None))
    if not isinstance(name, str) or name not in kinds[cls]:
        raise ConfigError(f"{_join(path, 'name')} takes {_one_of(kinds[cls])}, got {_show(name)}")
    chosen: type[T] = kinds[cls][name]
    return base if isinstance(base, chosen) else chosen()


def _at_new_places(values: dict[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """Read settings from the places that they had in earlier versions: finished runs keep theirs in config.toml.

    A class lists them in `moved`: {"table.key": "key"}. A value at the new place wins.
    """
    for old, new in moved.items():
        table, key = old.split(".")
        if isinstance(values.get(table), Mapping) and key in values[table]:
            rest = dict(values[table])
            values = {new: rest.pop(key), **values, table: rest}
    return values


def _read(hint: Any, value: Any, kinds: Kinds, base: Any, path: str) -> Any:
    """Read one value as `hint`. Nothing is converted, except an integer to a float."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(arg for arg in get_args(hint) if arg is not NoneType)
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, kinds, base, path)  # type: ignore[arg-type]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(f"{path} takes {_one_of(get_args(hint))}, got {_show(value)}")
        return value
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if isinstance(value, Mapping) and base is not None:
            return _change_items(inner, value, kinds, base, path)
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{path} takes a list, got {_show(value)}")
        return tuple(_read(inner, v, kinds, None, f"{path}.{i}") for i, v in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value)
    if type(value) is not hint:
        raise ConfigError(f"{path} takes {_NAMES.get(hint, hint.__name__)}, got {_show(value)}")
    return value


def _change_items(hint: Any, values: Mapping[str, Any], kinds: Kinds, base: tuple[Any, ...], path: str) -> Any:
    """Change items of a list by a table: `stages.0.steps = 100`, as the flags do."""
    items = dict(enumerate(base))
    for key, value in values.items():
        if key not in map(str, items):
            raise ConfigError(f"{_join(path, key)} does not exist: there are {len(items)}, counted from 0")
        items[int(key)] = _read(hint, value, kinds, items[int(key)], _join(path, key))
    return tuple(items.values())


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _check_limits(hint: Any, value: Any, path: str) -> None:
    """Check a value against the limits beside its type, inside optional types and lists, too."""
    if value is None:
        return
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:
            for limit in extra if isinstance(extra, Iterable) else (extra,):  # an Interval holds several
                _check_limit(limit, value, path)
        _check_limits(get_args(hint)[0], value, path)
    elif get_origin(hint) in (Union, UnionType):
        for option in get_args(hint):
            if option is not NoneType:
                _check_limits(option, value, path)
    elif get_origin(hint) is tuple:
        for i, item in enumerate(value):
            _check_limits(get_args(hint)[0], item, f"{path}.{i}")


def _check_limit(limit: Any, value: Any, path: str) -> None:
    match limit:
        case limits.Gt(gt=bound):
            good, takes = value > bound, f"a number above {bound}"
        case limits.Ge(ge=bound):
            good, takes = value >= bound, f"a number of at least {bound}"
        case limits.Lt(lt=bound):
            good, takes = value < bound, f"a number below {bound}"
        case limits.Le(le=bound):
            good, takes = value <= bound, f"a number of at most {bound}"
        case limits.MinLen(min_length=bound):
            good, takes = len(value) >= bound, f"at least {bound} of them"
        case _:
            return
    if isinstance(value, float) and not math.isfinite(value):
        good, takes = False, "a finite number"
    if not good:
        raise ConfigError(f"{path} takes {takes}, got {_show(value)}")


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        yield path, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _children(item, f"{path}.{i}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _unknown(path: str, key: str, fields: set[str]) -> str:
    close = difflib.get_close_matches(str(key), fields, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(sorted(fields))}"
    return f"{path} is not a setting; {hint}"


def _one_of(values: Any) -> str:
    return "one of " + ", ".join(repr(v) for v in values)


def _show(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
