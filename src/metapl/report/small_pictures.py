"""Pictures of a data set, small enough for a page."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metapl.data.reading.decode import BadImage
from metapl.data.sources.on_disk import Examples

SIDE = 96  # pixels of the longer side of what is shown


def example(examples: Examples, row: int) -> NDArray[np.generic] | None:
    """One example; None if its picture cannot be read any more."""
    try:
        return np.asarray(examples[row : row + 1][0])
    except BadImage:
        return None


def as_data(picture: NDArray[np.generic] | None) -> str:
    """A data: URI of a picture: PNG if it is small, or else a reduced JPEG."""
    if picture is None:  # damaged since its prediction
        return "data:,"
    pixels = picture.astype(np.uint8)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    large = max(image.size) > SIDE // 2
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG" if large else "PNG", quality=85)
    kind = "jpeg" if large else "png"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
