"""Valid files of data sets as they are published, and of what metapl's verbs leave for each other, to be mutated."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow
from PIL import Image
from pyarrow import parquet as parquet_files
from scipy.io import savemat

from metapl import config as configs
from metapl.data.reading.decode import BadImage
from metapl.data.sources import idx, parquet, svhn, webdataset
from metapl.data.sources.source import Source
from metapl.report import html
from metapl.report.build import build
from metapl.report.read import read_runs

CLASSES = ("cat", "dog")
RUN = "run"  # the folder of the run whose files are damaged


def pictures(count: int) -> list[bytes]:
    """Small pictures, PNG and JPEG."""
    found = []
    for seed in range(count):
        file = io.BytesIO()
        pixels = np.random.RandomState(seed).randint(0, 256, (5, 4, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(file, "JPEG" if seed % 2 else "PNG")
        found.append(file.getvalue())
    return found


def tar_shards(place: Path) -> list[bytes]:
    """Samples with numbers, with texts, and with JSON beside them."""
    found = []
    for kind in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
            for number, picture in enumerate(pictures(3)):
                more = [("cls", str(number % 2).encode()), ("json", b'{"kind": "cat"}')]
                for ending, content in [("jpg" if number % 2 else "png", picture), *more]:
                    member = tarfile.TarInfo(f"{'a' * 90}/é{number}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        found.append(file.getvalue()[: 512 * 40])
    return found


def read_tar(path: Path) -> None:
    """Index the shard, then decode all that it has."""
    _decode_all(webdataset.read(webdataset.WebDataset(path=str(path)), ()))
    _decode_all(webdataset.read(webdataset.WebDataset(path=str(path), label="json.kind"), ()))


def _decode_all(source: Source) -> None:
    for part in source.parts.values():
        for row in range(len(part.images)):
            try:
                part.images[row]
            except BadImage:  # of one picture; the others still count
                continue


def parquets(place: Path) -> list[bytes]:
    """Structs and plain bytes, labels as numbers and texts, several codecs."""
    features = {"image": {"_type": "Image"}, "label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    described = {"huggingface": json.dumps({"info": {"features": features}})}
    structs = [{"bytes": picture, "path": f"{number}.png"} for number, picture in enumerate(pictures(5))]
    tables = [
        pyarrow.table({"image": structs, "label": [0, 1, 0, 1, None]}).replace_schema_metadata(described),
        pyarrow.table({"picture": pictures(4), "class": ["cat", "dog", None, "cat"]}),
    ]
    found = []
    for table in tables:
        for codec in ("snappy", "none"):
            file = io.BytesIO()
            parquet_files.write_table(table, file, row_group_size=2, compression=codec, write_page_checksum=True)
            found.append(file.getvalue())
    return found


def read_parquet(path: Path) -> None:
    """Copy the pictures to a cache of its own, and decode them."""
    cache = path.parent / "cache"
    with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(cache)}):
        try:
            _decode_all(parquet.read(parquet.Parquet(path=str(path)), ()))
        finally:
            shutil.rmtree(cache, ignore_errors=True)


def idx_files(place: Path) -> list[bytes]:
    """MNIST's pictures; the other three files stay as they are."""
    images = bytes([0, 0, 8, 3]) + np.array([4, 3, 2], ">u4").tobytes() + bytes(range(24))
    labels = bytes([0, 0, 8, 1]) + np.array([4], ">u4").tobytes() + bytes([0, 1, 9, 3])
    for name, content in (("train-labels-idx1", labels), ("t10k-images-idx3", images), ("t10k-labels-idx1", labels)):
        (place / f"{name}-ubyte").write_bytes(content)
    return [images]


def read_idx(path: Path) -> None:
    """Read all four files."""
    idx.read(idx.Mnist(verify=False), (path.parent,))


def mat_files(place: Path) -> list[bytes]:
    """SVHN's pictures, compressed and not."""
    arrays = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]], np.uint8)}
    found = []
    for packed in (True, False):
        file = io.BytesIO()
        savemat(file, arrays, do_compression=packed)
        found.append(file.getvalue())
    (place / "test_32x32.mat").write_bytes(found[0])
    return found


def read_mat(path: Path) -> None:
    """Read both parts."""
    svhn.read(svhn.Svhn(extra=False, verify=False), (path.parent,))


def hash_files(place: Path) -> list[bytes]:
    """What `metapl data check` leaves for `metapl data select`."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {"test.hashes": np.arange(5, dtype=np.uint64), "test.readable": np.ones(5, bool)}
    np.savez_compressed(file, **arrays)
    return [file.getvalue()]


def _run_files() -> dict[str, bytes]:
    """The files of a finished run that a report reads."""
    seeds = {"0": 0.5, "1": 0.75}
    lines = [{"seeds": [0, 1], "stage": 0, "step": step, "student_loss": [1.0, 0.5]} for step in (10, 20, 30)]
    final = {"accuracy": {"seeds": seeds}, "nll": {"seeds": seeds}}
    contents: dict[str, Any] = {
        "split.json": {"class_names": CLASSES, "labeled": {"count": 4}, "checksum": "x"},
        "environment.json": {"seeds": [0, 1], "seeds_at_once": 2, "command": ["train"]},
        "result.json": {"accuracy": 0.6, "std": 0.1, "accuracies": seeds, "final": final},
    }
    return {name: json.dumps(content).encode() for name, content in contents.items()} | {
        "config.toml": configs.dump(configs.load("digits_mpl_small")).encode(),
        "metrics.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode(),
        "evaluations.csv": b"seed,stage,step,test_accuracy,val_accuracy\n0,0,30,0.5,\n1,0,30,0.75,\n",
        "log.jsonl": b'{"time": 1.5, "event": "started"}\n{"time": 2.5, "event": "finished"}\n',
    }


RUN_FILES = tuple(_run_files())


def run_with(name: str, place: Path) -> list[bytes]:
    """Write the files of a run, and return the one that is to be damaged."""
    (place / RUN).mkdir(exist_ok=True)
    for other, content in _run_files().items():
        (place / RUN / other).write_bytes(content)
    return [_run_files()[name]]


def read_run(path: Path) -> None:
    """Make the run's page."""
    html.page(*build(read_runs([path.parent]), lambda run: ()))
