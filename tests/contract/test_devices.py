"""Eight devices give what one gives, but for rounding."""

import json
import subprocess
import sys
from pathlib import Path


def test_one_step_of_every_method_on_eight_devices_is_that_on_one():
    """In a process of its own: the number of devices is settled before jax starts."""
    script = Path(__file__).parent / "eight_devices.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    apart = json.loads(done.stdout.splitlines()[-1])
    assert apart
    assert max(apart.values()) < 1e-4, apart
