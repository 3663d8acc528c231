"""An encoder that was trained on ImageNet: an EfficientNet-Lite without its classifier.

    u = the picture, scaled bilinearly; its shorter side is as long as the settings say
    F = the mean over the picture of the last convolution's output for (u − 127) / 128: 1,280 numbers from 0 to 6
    x = (F − μ) / σ

| symbol | name                                                                     |
|--------|--------------------------------------------------------------------------|
| μ, 1/σ | mean, factor: of each feature, over a sample of the pictures, unlabelled |

A grey picture is repeated in three channels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapl.features import network
from metapl.features.frozen import Frozen
from metapl.features.sample import sample
from metapl.models import packages
from metapl.models.efficientnet_lite import MEAN, SCALE, EfficientNetLite
from metapl.schema import from_dict
from metapl.start_from.recognise import Pretrained

SAMPLE = 400  # pictures that the scale is learnt from, before the first model of a fit is there

Pictures = NDArray[np.uint8]  # [N, H, W, C]
Values = NDArray[np.float32]


class Scale(NamedTuple):
    """What turns F into features of mean 0 and deviation 1."""

    mean: Values  # [1280]
    factor: Values  # [1280]


def load(name: str, size: int) -> Frozen:
    """Read the network of this name; its features are not scaled yet."""
    model = from_dict(EfficientNetLite, {"variant": name.removeprefix("efficientnet_")}, {})
    return network.of(Pretrained(model, packages.file_of(name), (MEAN / 255,), (SCALE / 255,)), size)


def learn_scale(encode: Callable[[Pictures], Values], pictures: Sequence[Pictures]) -> Scale:
    """Learn μ and σ from a sample of the pictures, repeatably."""
    values = encode(sample(pictures, SAMPLE))
    mean, deviation = values.mean(0), values.std(0)
    factor = np.where(deviation > 0, 1 / np.maximum(deviation, 1e-3), 0)  # 1e-3: a feature that hardly ever moves
    return Scale(mean, factor.astype(np.float32))
