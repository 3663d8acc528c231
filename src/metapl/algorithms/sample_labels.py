"""Where pseudo labels are sampled: Algorithm 1's first line, for `mpl` and `reduced_mpl`."""

import jax

from metapl.types import Array


def sample_labels(kind: str, key: Array, logits: Array) -> Array:
    """Return labels as distributions [U, C]: "hard", one-hot ŷ_u ~ T(x_u; θ_T), or "soft", T(x_u; θ_T) itself."""
    if kind == "soft":
        return jax.nn.softmax(logits)
    return jax.nn.one_hot(jax.random.categorical(key, logits), logits.shape[-1], dtype=logits.dtype)
