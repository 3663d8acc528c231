"""Running out of memory is one sentence, whoever notices it; other errors are not taken for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.system.memory import shortage

MOST = 1 << 44  # numbers: more than any machine has room for


def raised_by(function) -> Exception:
    with pytest.raises(Exception, match=r"(?i)memory|allocat") as caught:
        function()
    return caught.value


def test_it_is_recognised_in_numpy_and_in_xla():
    array = raised_by(lambda: np.zeros(MOST))
    program = raised_by(
        lambda: jax.jit(lambda: jnp.arange(MOST // 4096, dtype=jnp.float32)[:, None] + jnp.zeros(4096))()
    )
    for error in (array, program, MemoryError()):
        assert shortage(error).startswith("there is not enough memory"), error
        assert "\n" not in shortage(error)
    assert "llocat" in shortage(array)
    assert "llocat" in shortage(program)


def test_other_errors_are_others():
    assert shortage(RuntimeError("Out of memory")) == ""
    assert shortage(ValueError("a bug")) == ""
