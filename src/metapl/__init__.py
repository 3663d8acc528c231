"""Meta Pseudo Labels in JAX: semi-supervised image classification with the feedback that the paper describes."""

import importlib
from typing import Any

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import the classifier, and jax with it, only when it is used."""
    if name == "MetaPseudoLabels":
        return importlib.import_module("metapl.estimator").MetaPseudoLabels
    raise AttributeError(f"module 'metapl' has no attribute {name!r}")
