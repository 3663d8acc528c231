"""Read Parquet files of pictures with pyarrow: which columns, their labels, and the pictures' bytes in order.

The layout is that of Hugging Face: a column of structs with the fields bytes and path, and a column of numbers whose
names are in the file's metadata. A plain column of bytes is taken, too.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from metapl.data.reading.decode import DataError
from metapl.schema import ConfigError

_ROWS = 64  # pictures in memory at a time
_USUAL_LABELS = ("label", "labels", "class", "cls", "target", "category")


class Columns(NamedTuple):
    """The columns of a file that are used."""

    image: str
    label: str | None  # None: the file has no labels
    class_names: tuple[str, ...]  # empty: the file does not name its classes


def columns(path: Path, image: str = "auto", label: str = "auto") -> Columns:
    """Find the columns of pictures and labels, or check those that are named."""
    with _opened(path) as file:
        schema = file.schema_arrow
        features = _features(schema.metadata or {})
        image = _image_column(path, schema, image)
        found = _label_column(path, schema, features, label)
        return Columns(image, found, _class_names(features.get(found)) if found else ())


def labels(path: Path, column: str) -> list[int | str | None]:
    """The labels of all rows, as they are stored."""
    with _opened(path) as file:
        values: list[Any] = file.read(columns=[column]).column(0).to_pylist()
    for row, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
            raise DataError(f"{path}/{row}: {column} must be a whole number or a text, got {value!r:.50}")
    return [value or None if isinstance(value, str) else value for value in values]


def pictures(path: Path, column: str) -> Iterator[bytes]:
    """Yield the encoded picture of every row; no bytes for a row without a picture."""
    import pyarrow as pa

    with _opened(path) as file:
        is_struct = pa.types.is_struct(file.schema_arrow.field(column).type)
        for batch in file.iter_batches(_ROWS, columns=[f"{column}.bytes" if is_struct else column]):
            values = batch.column(0)
            for value in (values.flatten()[0] if is_struct else values).to_pylist():
                yield value or b""


def require() -> None:
    """Raise ConfigError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ConfigError("Parquet files need pyarrow, which is not installed: pip install 'metapl[parquet]'") from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; its damage becomes a DataError that names it, also while it is read."""
    require()
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, NotImplementedError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise DataError(f"{path} cannot be read as a Parquet file: {lines[0]}") from None


def _image_column(path: Path, schema: Any, wanted: str) -> str:
    import pyarrow as pa

    def is_bytes(kind: Any) -> bool:
        return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)

    def has_bytes(kind: Any) -> bool:
        return kind.get_field_index("bytes") >= 0 and is_bytes(kind.field("bytes").type)

    found = [field.name for field in schema if (has_bytes if pa.types.is_struct(field.type) else is_bytes)(field.type)]
    if wanted != "auto":
        if wanted in found:
            return wanted
        raise DataError(f"{path} has no column {wanted!r} of encoded pictures; its columns are {_listed(schema.names)}")
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(f"{path} has no column of encoded pictures; its columns are {_listed(schema.names)}")
    if "image" in found:
        return "image"
    raise DataError(f"{path} has several columns of encoded pictures; set image to one of {_listed(found)}")


def _label_column(path: Path, schema: Any, features: Mapping[str, Any], wanted: str) -> str | None:
    if wanted not in ("auto", ""):
        if wanted in schema.names:
            return wanted
        raise DataError(f"{path} has no column {wanted!r}; its columns are {_listed(schema.names)}")
    if not wanted:
        return None
    if usual := [name for name in _USUAL_LABELS if name in schema.names]:
        return usual[0]
    named = [name for name in schema.names if _class_names(features.get(name))]
    if len(named) > 1:
        raise DataError(f"{path} has several columns of labels; set label to one of {_listed(named)}")
    return named[0] if named else None


def _features(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Hugging Face's description of the columns; empty if the file has none."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...]:
    names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
    if isinstance(names, dict):  # older files: {"0": "cat", "1": "dog"}
        names = list(names.values())
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
