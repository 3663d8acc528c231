"""Small tar shards and Parquet files for tests."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def png(grey: int, size: tuple[int, int] = (4, 3)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (grey, 1, 2)).save(out, "PNG")
    return out.getvalue()


def noise(seed: int, side: int = 8) -> bytes:
    """A picture that looks like no other."""
    out = io.BytesIO()
    pixels = np.random.RandomState(seed).randint(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sample(key: str, picture: bytes, label: int | str | None = None) -> list[tuple[str, bytes]]:
    members = [(f"{key}.png", picture)]
    return members if label is None else [*members, (f"{key}.cls", str(label).encode())]


def write_parquet(
    path: Path,
    pictures: list[bytes | None],
    labels: list[int | str | None] | None,
    names: list[str] | None = None,
    more: Mapping[str, list[object]] | None = None,
) -> Path:
    """A file as the Hugging Face library writes it: structs of bytes and path, and names of classes as metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"image": [picture and {"bytes": picture, "path": f"{i}.png"} for i, picture in enumerate(pictures)]}
    table = pa.table({**columns, **({"label": labels} if labels is not None else {}), **(more or {})})
    if names:
        features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, path, row_group_size=3)
    return path
