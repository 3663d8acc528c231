"""Pictures in tar files, as the library webdataset writes them: cat_17.jpg beside cat_17.cls."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from metapl.data.reading.decode import DataError
from metapl.data.reading.files import Folders
from metapl.data.reading.packed import Packed, Place, from_places
from metapl.data.reading.tar_shard import Sample, samples
from metapl.data.sources.shards import Label, ShardConfig, find_shards, joined, to_source
from metapl.data.sources.source import Source

_NAMES = ("classnames.txt", "classes.txt")  # a list of the classes' names beside the shards, one in each line
_NUMBER = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True)
class WebDataset(ShardConfig):
    """Encoded pictures in tar files (WebDataset shards)."""

    name: ClassVar[str] = "webdataset"
    suffix: ClassVar[str] = ".tar"

    image: str = "auto"
    """The ending of a sample's picture, such as jpg. auto: the only picture of each sample."""
    label: str = "cls"
    """The ending of a sample's label (a number or a text), or json.KEY for an entry of its JSON; may be missing."""


def read(config: WebDataset, folders: Folders) -> Source:
    """Index every shard; pictures are decoded only when they are needed."""
    shards = find_shards(config, folders)
    raw = {part: joined([_index(config, path) for path in paths]) for part, paths in shards.items()}
    return to_source(raw, _class_names(shards["train"][0].parent), config.name)


def index(path: Path) -> Packed:
    """All pictures of one shard, whatever their samples are."""
    places = [place for sample in samples(path) for place in sample.pictures.values()]
    return from_places(path, path, places)


def _index(config: WebDataset, path: Path) -> tuple[Packed, list[Label]]:
    ending, _, key = config.label.partition(".") if config.label.startswith("json.") else (config.label, "", "")
    found = [(_picture(config, path, sample), _label(path, sample, ending, key)) for sample in samples(path, ending)]
    if not found:
        raise DataError(f"{path} has no samples")
    return from_places(path, path, [place for place, _ in found]), [label for _, label in found]


def _picture(config: WebDataset, path: Path, sample: Sample) -> Place:
    if config.image != "auto" and config.image in sample.pictures:
        return sample.pictures[config.image]
    if config.image == "auto" and len(sample.pictures) == 1:
        return next(iter(sample.pictures.values()))
    have = ", ".join(sample.pictures) or "none"
    wanted = "one picture" if config.image == "auto" else f"a picture {config.image!r}"
    raise DataError(f"{path}: the sample {sample.key!r} must have {wanted}, it has {have}; set image to an ending")


def _label(path: Path, sample: Sample, ending: str, key: str) -> Label:
    """The label as it is stored: a number or a text; None if the sample has none."""
    text = sample.texts.get(ending)
    if text is None:
        return None
    try:
        value = json.loads(text).get(key) if key else text.decode("utf-8").strip()
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: the label {sample.key}.{ending} cannot be read: {error}") from None
    if isinstance(value, str):
        return int(value) if _NUMBER.fullmatch(value) else value or None
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9):
        return value
    raise DataError(f"{path}: the label {sample.key}.{ending} must be a whole number or a text, got {value!r:.50}")


def _class_names(folder: Path) -> tuple[str, ...]:
    for name in _NAMES:
        if (folder / name).is_file():
            lines = (folder / name).read_text("utf-8", "replace").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
    return ()
