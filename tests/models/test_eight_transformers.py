"""ViT and ConvNeXt on eight devices, which share batches and hold a part of each kernel, give the numbers of one."""

import json
import subprocess
import sys
from pathlib import Path


def test_eight_devices_give_the_numbers_of_one():
    command = [sys.executable, "-m", "tests.models.eight_transformers"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == 6
    for name, found in told.items():
        assert found["far"] < 1e-3, (name, found)
        assert found["moved"] > 0.01, (name, found)
        assert (found["split"] > 8) == ("single" not in name), (name, found)
