"""Shared by all tests: double precision where a proof needs it."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def float64() -> Iterator[None]:
    # Strict: a float32 array that silently meets a float64 one is a bug that a proof would hide.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield
