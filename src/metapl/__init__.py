"""Meta Pseudo Labels in JAX: semi-supervised image classification with the feedback that the paper describes."""

__version__ = "0.1.0"
