"""Eight devices give what one gives, but for rounding."""

import json
import subprocess
import sys
from pathlib import Path


def test_one_step_of_every_method_on_eight_devices_is_that_on_one():
    """In a process of its own: the number of devices is settled before jax starts."""
    command = [sys.executable, "-m", "tests.contract.eight_devices"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    apart = json.loads(done.stdout.splitlines()[-1])
    assert apart
    assert max(apart.values()) < 1e-4, apart
