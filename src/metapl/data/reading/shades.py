"""Convert grey pixels of more than 8 bits to bytes, so that the picture stays visible.

For unsigned 16 bits, white is 65,535. Cameras and microscopes often use less of that range, for example 12 bits, and
the picture would be nearly black. Signed and longer integers and floats have no standard white level. In both cases
each picture's own range is stretched: its darkest shade becomes black, its brightest white.
"""

import numpy as np
from numpy.typing import NDArray

FEW = 32  # of 256 shades: a picture that uses fewer of its format's range is stretched
ODD = 0.1  # percent of the pixels at either end that are ignored: one hot pixel would make all others black

Grey = NDArray[np.integer] | NDArray[np.floating]


def by_format(grey: Grey) -> NDArray[np.uint8]:
    """The upper 8 bits of 0 … 65,535, or the picture's own range if it uses little of that."""
    span = int(grey.max()) - int(grey.min())
    return by_own_range(grey) if 0 < span < FEW << 8 else (grey.astype(np.uint16) >> 8).astype(np.uint8)


def by_own_range(grey: Grey, no_data: float | None = None) -> NDArray[np.uint8]:
    """The smallest value becomes black, the largest white; NaN, infinity and `no_data` become black.

    A picture of one value becomes grey, since it may mean black or white. ValueError if no pixel has a value.
    """
    known = np.isfinite(grey) if no_data is None else np.isfinite(grey) & (grey != no_data)
    if not known.any():
        raise ValueError("no pixel has a value")
    low, high = _ends(grey[known])
    if low == high:
        return np.where(known, np.uint8(128), np.uint8(0))
    share = np.subtract(grey, low, dtype=np.float64) / (high - low)
    return np.where(known, np.clip(share * 255, 0, 255).round(), 0).astype(np.uint8)


def _ends(values: Grey) -> tuple[float, float]:
    low = np.percentile(values, ODD, method="lower")
    high = np.percentile(values, 100 - ODD, method="higher")
    if low == high:  # all but a few pixels are equal: stretch the range of those few
        low, high = values.min(), values.max()
    return float(low), float(high)
