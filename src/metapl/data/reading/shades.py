"""Grey pixels of more than 8 bits, brought to bytes without a picture that can be seen becoming one that cannot.

Formats agree on what white is for 16 bits without a sign: 65,535. Cameras and microscopes often use less of it, 12 bits
say, and a picture would be nearly black. Of signed and longer integers and of floats nobody has agreed on a white.
In both cases each picture's own range is stretched: its darkest shade is black, its brightest white.
"""

import numpy as np
from numpy.typing import NDArray

FEW = 32  # of 256 shades: a picture that spans fewer of its format's range is stretched
ODD = 0.1  # percent of the pixels at either end that do not count: a single hot pixel would make all others black

Grey = NDArray[np.integer] | NDArray[np.floating]


def by_format(grey: Grey) -> NDArray[np.uint8]:
    """Of 0 … 65,535 the upper 8 bits, or the picture's own range if it uses little of that."""
    span = int(grey.max()) - int(grey.min())
    return by_own_range(grey) if 0 < span < FEW << 8 else (grey.astype(np.uint16) >> 8).astype(np.uint8)


def by_own_range(grey: Grey, nothing: float | None = None) -> NDArray[np.uint8]:
    """From black at the smallest value to white at the largest; what is no number, or `nothing`, is black.

    A picture of one value is grey: neither black nor white is known to be meant. Without any value: a ValueError.
    """
    known = np.isfinite(grey) if nothing is None else np.isfinite(grey) & (grey != nothing)
    if not known.any():
        raise ValueError("not one pixel is a number")
    low, high = _ends(grey[known])
    if low == high:
        return np.where(known, np.uint8(128), np.uint8(0))
    share = np.subtract(grey, low, dtype=np.float64) / (high - low)
    return np.where(known, np.clip(share * 255, 0, 255).round(), 0).astype(np.uint8)


def _ends(values: Grey) -> tuple[float, float]:
    low = np.percentile(values, ODD, method="lower")
    high = np.percentile(values, 100 - ODD, method="higher")
    if low == high:  # a few pixels on an even ground are all that there is to see
        low, high = values.min(), values.max()
    return float(low), float(high)
