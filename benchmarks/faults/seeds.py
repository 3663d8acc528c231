"""Valid inputs of every kind that the package reads, to be mutated, and the function that reads each of them."""

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from faults import exports, fit_files, http_requests, sets
from metapl import config as configs
from metapl import models, weights
from metapl.data.audit import leave_out
from metapl.data.reading import probabilities, records
from metapl.data.reading.decode import decode_file
from metapl.data.reading.unpickle import load_dict
from metapl.data.sources import csv_list, npz
from metapl.fit import label_file
from metapl.models.mlp import MLP
from metapl.schema import to_dict
from metapl.study import read as studies
from metapl.sweep import space

PRESETS = ("digits_mpl_small", "cifar10_4k_uda", "two_moons_mpl", "noisy_student_imagenet", "features_fixmatch")
NETWORK = models.build(MLP(hidden=(3,)), 2)


def _toml(place: Path) -> list[bytes]:
    return [configs.dump(configs.load(name)).encode() for name in PRESETS]


STUDY = b"""
seeds = 2
title = "a"
[cases.x]
set = {"stages.0.steps" = 3}
[arms.a]
preset = "two_moons_mpl"
[[pairs]]
arm = "a"
control = "a"
[small]
seeds = 1
cases = ["x"]
[figure]
kind = "bars"
"""


def _csv(place: Path) -> list[bytes]:
    Image.new("RGB", (4, 4)).save(place / "a.png")
    Image.new("L", (4, 4)).save(place / "b c.png")
    return [b"path,label,split\na.png,cat,labeled\nb c.png,dog,labeled\na.png,,unlabeled\nb c.png,dog,test\n",
            b'path,label\r\na.png,"1,2"\r\n"b c.png",\r\n']  # fmt: skip


def _pictures(place: Path) -> list[bytes]:
    draw = np.random.RandomState(0)
    colour = Image.fromarray(draw.randint(0, 256, (9, 7, 3)).astype(np.uint8))
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (colour, "PNG", {}), (colour, "JPEG", {}), (colour, "BMP", {}), (colour, "GIF", {}), (colour, "WEBP", {}),
        (colour.convert("CMYK"), "JPEG", {}), (colour.convert("RGBA"), "PNG", {}), (colour.convert("P"), "PNG", {}),
        (Image.fromarray(draw.randint(0, 4096, (5, 5)).astype(np.uint16)), "TIFF", {}),
        (Image.fromarray(draw.normal(size=(5, 5)).astype(np.float32)), "TIFF", {}),
        (colour, "TIFF", {"compression": "tiff_lzw"}),
    ]  # fmt: skip
    return [_encoded(*kind) for kind in kinds]


def _encoded(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _weights(place: Path) -> list[bytes]:
    path = place / "seed.safetensors"
    made = NETWORK.init(jax.random.key(0), jnp.zeros((1, 2)))
    weights.save(path, made, to_dict(MLP(hidden=(3,))), ("a", "b"), weights.Example((2,), "float32"))
    return [path.read_bytes()]


def _read_weights(path: Path) -> None:
    weights.about(path)
    weights.load(path, jax.eval_shape(NETWORK.init, jax.random.key(0), jnp.zeros((1, 2))))


def _npz(place: Path) -> list[bytes]:
    images = np.random.RandomState(0).randint(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    arrays: dict[str, Any] = {"images": images, "labels": np.array([0, 1, -1, 1]), "class_names": np.array(["a", "b"])}
    found = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **arrays)
        found.append(file.getvalue())
    return found


def _npy(place: Path) -> list[bytes]:
    file = io.BytesIO()
    np.save(file, np.full((6, 3), 1 / 3, np.float16))
    return [file.getvalue()]


def _example(place: Path) -> list[bytes]:
    """Two features of a tf.train.Example: image/bytes and image/class/label."""
    image = b"\x0a\x15\x0a\x0d\x0a\x0bimage/bytes" + b"\x12\x04\x0a\x02\x0a\x00"
    label = b"\x0a\x1d\x0a\x11image/class/label\x12\x08\x1a\x06\x0a\x04\x03\x03\x03\x03"
    return [b"\x0a" + bytes([len(image + label)]) + image + label, image + label, b"\x0a\x06" + image]


def _read_example(path: Path) -> None:
    """Frame the mutated example with right checksums, so that the reader gets as far as its fields."""
    data, file = path.read_bytes(), path.with_suffix(".tfrecord")
    length = struct.pack("<Q", len(data))
    parts = (length, struct.pack("<I", records.masked_crc(length)), data, struct.pack("<I", records.masked_crc(data)))
    file.write_bytes(b"".join(parts))
    for _ in records.scan(file, {"image/bytes", "image/class/label"}):
        pass


def _pickled(place: Path) -> list[bytes]:
    batch = {b"data": np.zeros((2, 12), np.uint8), b"labels": [1, 2], b"filenames": [b"a.png", b"b.png"]}
    return [pickle.dumps(batch, protocol) for protocol in (0, 1, 2, 4)]


def _read_pickle(path: Path) -> None:
    with path.open("rb") as file:
        load_dict(file, path.name)


def _read_csv(path: Path) -> None:
    csv_list.read(csv_list.CsvList(file=path.name), (path.parent,))


def _read_npz(path: Path) -> None:
    npz.read(npz.Npz(file=path.name), (path.parent,))


def _read_npy(path: Path) -> None:
    for _ in probabilities.chunks(path):
        pass


SPACE = b"""
[all]
"stages.0.method.label_smoothing" = {type = "float", low = 0.0, high = 0.2}
[a]
"stages.0.labeled_batch" = {type = "choice", values = [32, 64]}
"model.hidden" = {type = "choice", values = [[64], [128, 128]], also = ["x"]}
steps = {type = "int", low = 1, high = 3, step = 1}
"""
LABELS = b"path,label,decision\r\na.png,cat,label\r\nb.png,,none_of_these\r\na.png,,undo\r\n"

# kind -> (valid inputs, reader, name of the file)
SEEDS: Mapping[str, tuple[Callable[[Path], list[bytes]], Callable[[Path], Any], str]] = {
    "toml": (_toml, lambda path: configs.load(str(path)), "my.toml"),
    "study": (lambda place: [STUDY], lambda path: studies.load(str(path), small=True), "study.toml"),
    "csv": (_csv, _read_csv, "pictures.csv"),
    "picture": (_pictures, decode_file, "picture.png"),
    "safetensors": (_weights, _read_weights, "weights.safetensors"),
    "npz": (_npz, _read_npz, "pictures.npz"),
    "npy": (_npy, _read_npy, "probabilities.npy"),
    "tfrecord": (_example, _read_example, "example"),
    "pickle": (_pickled, _read_pickle, "data_batch_1"),
    "webdataset": (sets.tar_shards, sets.read_tar, "train.tar"),
    "parquet": (sets.parquets, sets.read_parquet, "train.parquet"),
    "idx": (sets.idx_files, sets.read_idx, "train-images-idx3-ubyte"),
    "mat": (sets.mat_files, sets.read_mat, "train_32x32.mat"),
    "hashes": (sets.hash_files, leave_out.read, "hashes.npz"),
    "labels": (lambda place: [LABELS], label_file.read, "labels.csv"),
    "space": (lambda place: [SPACE], lambda path: space.read(path, ["a"]), "space.toml"),
    "onnx": (exports.seeds, exports.read, "network"),
    **{f"run-{name}": (partial(sets.run_with, name), sets.read_run, f"{sets.RUN}/{name}") for name in sets.RUN_FILES},
    **{
        f"fit-{name.replace('/', '-')}": (
            partial(fit_files.seeds, name),
            partial(fit_files.read, name),
            f"{fit_files.FIT}/{name}",
        )
        for name in fit_files.NAMES
    },
    **{
        f"http-{site}": (partial(http_requests.seeds, site), partial(http_requests.read, site), "request")
        for site in http_requests.PATHS
    },
}
