"""What the process tells JAX before its first computation: the only file that touches the environment.

`start()` belongs to programs (the command line), not to imports: a library that someone imports leaves their
settings alone. Whatever the user has set stays.
"""

import os
from pathlib import Path

import jax


def start() -> None:
    """Keep compiled programs on disk: the second start of the same program skips the compiler."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        # TwoMoon programs compile in 1 to 4 s each: JAX's own threshold of 1 s would miss some of them.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metapl"
