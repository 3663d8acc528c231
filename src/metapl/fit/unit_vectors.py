"""Features scaled to length 1, so that distances depend on their directions alone."""

import numpy as np
from numpy.typing import NDArray


def unit_vectors(features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Each row [D] divided by its length; zero vectors stay zero."""
    wide = features.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
