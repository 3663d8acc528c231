"""Eight devices give what one gives, but for rounding."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("methods", [["mpl, uda teacher"], []], ids=["mpl", "all"])
def test_one_step_on_eight_devices_is_that_on_one(methods):
    """In a process of its own: the number of devices is settled before jax starts."""
    command = [sys.executable, "-m", "tests.contract.eight_devices", *methods]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    apart = json.loads(done.stdout.splitlines()[-1])
    assert len(apart) == len(methods) or (not methods and len(apart) > 8)
    assert max(apart.values()) < 1e-4, apart
