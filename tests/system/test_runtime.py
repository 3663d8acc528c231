"""What the process tells JAX: it must not change results, nor what the user has set."""

import os
import subprocess
import sys

import numpy as np
import pytest

from metapl.schema import ConfigError
from metapl.system import runtime

YNN = runtime.YNN_OPERATIONS.split("=")[0]

TRAIN = """
import sys
import jax, jax.numpy as jnp, numpy as np
from metapl import algorithms, models
from metapl.algorithms.supervised import Supervised
from metapl.models.wide_resnet import WideResNet
from metapl.system import runtime
from metapl.types import Views

if sys.argv[1] == "start":
    runtime.start()
x = jax.random.normal(jax.random.key(0), (16, 12, 12, 3))
views = Views(x, jnp.arange(16) % 3, x[:1], x[:1])
algorithm = algorithms.build(Supervised(), models.build(WideResNet(depth=10, width=2), 3), 10)
state = algorithm.init(jax.random.key(1), views, None)
for step in range(3):
    state, metrics = jax.jit(algorithm.step)(state, views, jax.random.key(step))
weights = algorithm.predictor(state)
np.savez(sys.argv[2], *jax.tree.leaves((weights, metrics)))
"""


def trained(how: str, folder, **environment: str) -> list[np.ndarray]:
    file = folder / f"{how}.npz"
    rest = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}
    subprocess.run(
        [sys.executable, "-c", TRAIN, how, file], check=True, env=rest | {"XDG_CACHE_HOME": str(folder)} | environment
    )
    with np.load(file) as arrays:
        return list(arrays.values())


def test_its_flags_change_a_pictures_networks_results_by_rounding_alone(tmp_path):
    plain, started = (trained(how, tmp_path) for how in ("plain", "start"))
    assert any(not np.array_equal(a, b) for a, b in zip(plain, started, strict=True)), "the flags did nothing"
    for a, b in zip(plain, started, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    """Keep this process's settings as they are: `start` leaves a cache alone that the user has chosen."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "chosen")


@pytest.mark.parametrize("mine", ["", "--xla_cpu_enable_fast_math=false"])
def test_its_flags_stand_beside_the_users(monkeypatch, mine):
    monkeypatch.setenv("XLA_FLAGS", mine)
    runtime.start()
    assert os.environ["XLA_FLAGS"].split() == [*mine.split(), runtime.YNN_OPERATIONS]


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"{YNN}=dot")
    runtime.start()
    assert os.environ["XLA_FLAGS"] == f"{YNN}=dot"


def test_a_flag_that_xla_does_not_know_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(runtime.xla_flags, "accepted", lambda flags, *_: [f for f in flags if not f.startswith(YNN)])
    monkeypatch.delenv("XLA_FLAGS")
    runtime.start(quick_compile=True)
    assert os.environ["XLA_FLAGS"] == f"{runtime.QUICK_COMPILE} {runtime.OLDER_LOOPS}"
    assert runtime.left_out_xla_flags() == [runtime.YNN_OPERATIONS]


def test_a_cache_that_cannot_be_made_names_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be made: Not a directory; set XDG_CACHE_HOME to a folder that can"):
        runtime.make_in_cache(runtime.cache_folder() / "features")
