"""Files of timm's repositories on the Hugging Face Hub, by `huggingface_hub` (pip install 'metapl[hub]').

The cache (HF_HOME, HF_HUB_CACHE), the offline mode (HF_HUB_OFFLINE) and the address (HF_ENDPOINT) are those of
`huggingface_hub`, shared with other programs. No token is sent: timm's repositories are public. What is added here:

- Only `model.safetensors` and `config.json` are fetched. A repository that offers only pickles is refused.
- Each file is hashed on every start, and compared with the checksum that the Hub's API gives for it. Without the
  network, it is compared with the checksum that the cache has noted. A file that differs is removed from the cache.
- A download that breaks off leaves nothing in the cache; one that begins again and again is given up.
"""

import functools
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from metapl.schema import ConfigError

OWNER = "timm/"
WEIGHTS, SETTINGS = "model.safetensors", "config.json"
PICKLES = (".bin", ".pth", ".pt", ".ckpt", ".pkl", ".pickle", ".pth.tar", ".msgpack", ".h5")
RESTARTS = 3  # of one download, from its first byte; `huggingface_hub` itself would go on for ever
TIMEOUT_S = 10.0  # of the API's answer
ELSE = "or download model.safetensors elsewhere, and give init_from its path"


class Checksum(NamedTuple):
    """What identifies a file's content: SHA-256 of large files, git's SHA-1 of small ones."""

    digits: str

    def fits(self, file: Path) -> bool:
        """Whether the file has this checksum."""
        if len(self.digits) == hashlib.sha256().digest_size * 2:
            with file.open("rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest() == self.digits
        content_of_small = file.read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(content_of_small) + content_of_small).hexdigest() == self.digits


class UnreachableError(Exception):
    """The Hub cannot be asked; the text says why."""


def is_named(name: str) -> bool:
    """Whether this is the name of a timm repository, not of a file that exists."""
    return name.startswith(OWNER) and not Path(name).exists()


@functools.cache
def fetch(repository: str, file: str = WEIGHTS) -> Path:
    """A repository's file in the cache, downloaded if it is not there, with the right checksum."""
    if not re.fullmatch(r"timm/\w[\w.-]*", repository):
        raise ConfigError(f"{repository!r} is not the name of a timm repository, such as timm/resnet18.a1_in1k")
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(
            f"{repository} comes from the Hugging Face Hub, which needs huggingface_hub: pip install 'metapl[hub]', "
            f"{ELSE}"
        ) from None
    with _quiet(huggingface_hub.logging):
        try:
            listed = _listed(repository)
        except UnreachableError as error:
            return _from_cache(repository, file, str(error))
        return _from_hub(repository, file, _expected(repository, file, listed))


def _listed(repository: str) -> dict[str, Checksum | None]:
    """The repository's files with their checksums, as the Hub's API gives them."""
    from huggingface_hub import HfApi, errors

    try:
        info = HfApi(token=False).model_info(repository, files_metadata=True, timeout=TIMEOUT_S)
        return {str(file.rfilename): _checksum(file) for file in info.siblings or ()}
    except errors.OfflineModeIsEnabled:
        raise UnreachableError("HF_HUB_OFFLINE is set") from None
    except errors.RepositoryNotFoundError:
        raise ConfigError(
            f"{repository} is not a public repository of {_endpoint()}; {_endpoint()}/timm lists timm's"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status < 500 and status != 429:
            raise ConfigError(
                f"{_endpoint()} refuses to list {repository} (status {status}); choose another repository, {ELSE}"
            ) from None
        raise UnreachableError(f"{_endpoint()} answers with status {status}") from None
    except (errors.HTTPError, OSError) as error:
        raise UnreachableError(f"{_endpoint()} cannot be reached: {_first_line(error)}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(
            f"{_endpoint()} does not answer as the Hugging Face Hub does; is HF_ENDPOINT right?"
        ) from None


def _checksum(file: Any) -> Checksum | None:
    digits = file.lfs.sha256 if file.lfs else file.blob_id
    known = isinstance(digits, str) and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digits)
    return Checksum(digits) if known else None


def _expected(repository: str, file: str, listed: dict[str, Checksum | None]) -> Checksum:
    if file not in listed:
        if file == WEIGHTS and (pickles := [name for name in listed if name.endswith(PICKLES)]):
            raise ConfigError(
                f"{repository} has no {WEIGHTS}, only {', '.join(pickles[:3])}: such files can run code when they are "
                "read, so metapl does not take them; choose a repository with safetensors"
            )
        raise ConfigError(f"{repository} has no file {file}; choose another repository, {ELSE}")
    checksum = listed[file]
    if checksum is None:
        raise ConfigError(
            f"{_endpoint()} gives no checksum of {file} in {repository}, so it is not trusted; choose another "
            f"repository, {ELSE}"
        )
    return checksum


def _from_hub(repository: str, file: str, expected: Checksum) -> Path:
    """Download the file unless the cache has it; what is in the cache but wrong is downloaded once more."""
    for again in (False, True):
        path = _download(repository, file, again)
        if expected.fits(path):
            return path
        _remove(path)
    raise ConfigError(
        f"{file} of {repository} came with another checksum than {_endpoint()} gives for it, twice; it was removed "
        f"again: try later, {ELSE}"
    )


def _download(repository: str, file: str, again: bool) -> Path:
    from huggingface_hub import errors, hf_hub_download

    try:
        return Path(hf_hub_download(repository, file, token=False, force_download=again, tqdm_class=_progress()))
    except errors.EntryNotFoundError:
        raise ConfigError(
            f"{repository} lists {file}, but {_endpoint()} does not have it; choose another repository, {ELSE}"
        ) from None
    except _CutError:
        why = "the connection was cut again and again"
    except errors.HfHubHTTPError as error:
        why = f"{_endpoint()} answers with status {error.response.status_code}"
    except (errors.HTTPError, OSError, errors.FileMetadataError, ValueError) as error:
        why = _first_line(error)
    raise ConfigError(f"{file} of {repository} could not be downloaded: {why}; nothing was kept, try again, {ELSE}")


def _from_cache(repository: str, file: str, why: str) -> Path:
    """The file that an earlier download left in the cache, checked against the name that the cache gave it."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, file)
    if not isinstance(found, str):
        raise ConfigError(
            f"{file} of {repository} is not in the cache of huggingface_hub, and {why}; start once with a network, "
            f"{ELSE}"
        )
    path = Path(found)
    noted = Checksum(Path(os.readlink(path)).name if path.is_symlink() else "")
    if not noted.digits:
        raise ConfigError(f"{path} is a copy without a checksum, and {why}; start once with a network, {ELSE}")
    if not noted.fits(path):
        _remove(path)
        raise ConfigError(f"{path} was damaged, and is removed; {why}: start once with a network, {ELSE}")
    return path


def _remove(path: Path) -> None:
    """Remove a file with wrong content from the cache: the name that it has there, and the content itself."""
    content = path.parent / os.readlink(path) if path.is_symlink() else None
    path.unlink(missing_ok=True)
    if content is not None:
        content.unlink(missing_ok=True)


class _CutError(Exception):
    """A download began from its first byte too often."""


def _progress() -> type:
    """A progress bar for terminals that also ends a download which begins again and again."""
    from tqdm import tqdm

    class Progress(tqdm):  # type: ignore[type-arg, misc, unused-ignore]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs | {"disable": None, "leave": False})
            self.restarts = 0

        def update(self, n: float | None = 1) -> bool | None:
            self.restarts += (n or 0) < 0
            if self.restarts > RESTARTS:
                raise _CutError
            return super().update(n)

    return Progress


@contextmanager
def _quiet(log: Any) -> Iterator[None]:
    """Keep the library's warnings about retries from the screen: an error that matters becomes our sentence."""
    before = log.get_verbosity()
    log.set_verbosity(log.CRITICAL)
    try:
        yield
    finally:
        log.set_verbosity(before)


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
