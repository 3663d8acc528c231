"""From an optimizer's settings to what updates a network's weights."""

from metapl.optim.descent import Descent, build
from metapl.optim.settings import Optimizer

__all__ = ["Descent", "Optimizer", "build"]
