"""Pictures inside shards that are named by paths: shard.tar/picture.jpg, train.parquet/17."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from metapl.data.reading import packed
from metapl.data.reading.decode import DataError
from metapl.data.reading.packed import Packed
from metapl.data.sources import parquet, webdataset

_INDEX: dict[str, Callable[[Path], Packed]] = {".tar": webdataset.index, ".parquet": parquet.index}


def shard_of(path: Path) -> Path | None:
    """The shard that a path leads into; None if it leads into none."""
    return next((place for place in path.parents if place.suffix in _INDEX and place.is_file()), None)


def pictures_at(paths: Sequence[Path], shards: Sequence[Path]) -> Packed:
    """The pictures at these paths, each inside its shard; each shard is indexed once."""
    indexed = {shard: _INDEX[shard.suffix](shard) for shard in dict.fromkeys(shards)}
    everything = packed.join(list(indexed.values()))
    rows = {str(Path(everything.name(i))): i for i in range(len(everything))}
    try:
        return everything.take(np.array([rows[str(path)] for path in paths], np.int64))
    except KeyError as error:
        raise DataError(f"there is no picture {error.args[0]}") from None
