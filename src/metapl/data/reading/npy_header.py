"""The header of a NumPy array in a file."""

import tokenize
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

# What a damaged header makes NumPy raise; its text goes through Python's tokenizer.
DAMAGE = (ValueError, SyntaxError, tokenize.TokenError)


class ArrayHeader(NamedTuple):
    """What the header says about the array."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def read_header(file: IO[bytes]) -> ArrayHeader:
    """Read the header; the file is at the array's first byte then. One of DAMAGE is raised if it is damaged."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return ArrayHeader(*read(file))
