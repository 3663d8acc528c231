"""What the machine lacks is one sentence, whoever notices it; other errors are not taken for it."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metapl.system.shortage import shortage

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


@pytest.mark.parametrize(
    ("platform", "says"),
    [
        ("cuda", "metapl: JAX cannot use JAX_PLATFORMS=cuda"),
        ("nonsense", "JAX_PLATFORMS=nonsense: Unable to initialize backend 'nonsense'"),
    ],
)
def test_a_platform_that_is_not_there_is_a_sentence(platform, says, tmp_path):
    command = [sys.executable, "-m", "metapl", "train", "two_moons_supervised", "--out", "run"]
    environment = os.environ | {"JAX_PLATFORMS": platform}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("Traceback")) == (2, 0), done.stderr
    assert says in done.stderr


def test_numbers_have_32_bits_whatever_the_user_has_set():
    code = "from metapl.system import runtime; runtime.start(); import jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    environment = os.environ | {"JAX_ENABLE_X64": "1"}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "float32\n"
