"""From a batch as it is stored to the views that networks see.

Points are float [B, D], pictures uint8 [B, H, W, C], stored views of features float16 [B, 1 + 2 V, D]; the type tells
them apart. Of pictures:

- the *eval* view is the whole picture, or its middle part resized if the views have a size of their own;
- the *weak* view is mirrored and moved (or, for large pictures, a random part resized); labelled pictures get it, too;
- the *strong* view is the weak view, the very same pixels, after RandAugment and Cutout, as in the paper's code (which
  then mirrors and moves it once more; we do not). There is one of the labelled pictures, too.

A method can declare more weak and strong views of the unlabelled examples (types.MethodConfig); each further pair has
keys of its own. Views that a method does not use cost nothing: the compiler drops them.

All of it happens on uint8; the last step turns the pixels into floats, normalised with a mean and a deviation.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le, MinLen
from numpy.typing import NDArray

from metapl.augment import crop
from metapl.augment.randaugment import CIFAR_OPS, SVHN_OPS, RandAugment
from metapl.augment.strong import LEARNING, distort
from metapl.augment.strong_view import StrongView
from metapl.schema import ConfigError
from metapl.system.microbatches import join, split
from metapl.types import Array, Batch, MethodConfig, PyTree, Views


@dataclass(frozen=True)
class WeakView:
    """What the weak view does to a picture."""

    flip: bool = True
    """Mirror half of the pictures. Not for digits and letters."""
    crop: Literal["shift", "resized", "centre"] = "shift"
    """shift: move by up to `shift_pixels`, with a grey border. resized: 8 to 100 % of the area, resized to `size`.
    centre: the eval view's middle part, to finetune on what evaluation sees (FixRes)."""
    shift_pixels: Annotated[int, Ge(0)] = 4
    """The padding of a pad-and-crop."""


@dataclass(frozen=True)
class Augmentation:
    """What the views do to an example: for points only `jitter` counts, for pictures all the others."""

    jitter: Annotated[float, Ge(0)] = 0.0
    """Strong view of points: standard deviation of Gaussian noise added to each feature."""
    size: Annotated[int, Ge(0)] = 0
    """Side of a picture's views in pixels; 0: as stored."""
    centre: Annotated[float, Gt(0), Le(1)] = 0.875
    """Eval view with a `size`: the part of the shorter side that is resized to it. 1 sees the whole square."""
    mean: Annotated[tuple[float, ...], MinLen(1)] = (0.5,)
    """Mean, which is subtracted from pictures of 0 to 1: one number, or one for each channel."""
    std: Annotated[tuple[float, ...], MinLen(1)] = (0.5,)
    """Standard deviation, by which the rest is divided; a mean and std of 0.5 give −1 to 1."""
    weak: WeakView = WeakView()
    strong: StrongView = RandAugment()
    at_once: Annotated[int, Ge(0)] = 0
    """Make the views of at most so many pictures of a batch at a time, to save memory; 0: of a whole microbatch.
    The number changes which views are drawn."""

    def check(self) -> None:
        """Check fields against each other."""
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean and std need the same number of numbers, got {len(self.mean)} and {len(self.std)}")
        if not all(std > 0 for std in self.std):
            raise ValueError(f"std takes numbers above 0, got {self.std}")
        if (self.size > 0) != (self.weak.crop in ("resized", "centre")):
            raise ValueError(f"a size needs weak.crop = 'resized' or 'centre', got {self.size} and {self.weak.crop!r}")


def usual(mirrored: bool, shift_pixels: int) -> Augmentation:
    """The views for a source's pictures: where a mirrored one would be another class's, as digits are, SVHN's rules."""
    return Augmentation(weak=WeakView(flip=mirrored, shift_pixels=shift_pixels), strong=usual_strong(mirrored))


def usual_strong(mirrored: bool) -> RandAugment:
    """The strong view for a source's pictures."""
    return RandAugment(ops=CIFAR_OPS if mirrored else SVHN_OPS)


class Counts(NamedTuple):
    """How many views of the unlabelled examples a method needs."""

    weak: int = 1
    strong: int = 1


ONE_OF_EACH = Counts()


def counts(method: MethodConfig) -> Counts:
    """Return how many views the method and its pieces declare."""
    needed = [Counts(*piece.views_needed) for piece in method.pieces]
    return Counts(max(it.weak for it in needed), max(it.strong for it in needed))


def build(config: Augmentation, parts: int = 1, devices: int = 1, number: Counts = ONE_OF_EACH) -> Callable[..., Views]:
    """Make the function from (batch, key) to views; of pictures in so many parts one after another, on so many devices.

    Its third argument, if there is one, is the memory of a strong view that learns. `at_once` makes more parts of a
    large batch. Parts have keys of their own. On TPUs it takes about 1.8 GiB to distort one picture of 512×512: few at
    a time fit.
    """

    def views(batch: Batch, key: Array, memory: PyTree = None) -> Views:
        passed_on = batch.labeled_predictions, batch.predictions, batch.indices
        labeled_key, weak_key, strong_key = jax.random.split(key, 3)
        pair_of = partial(pair_from, memory)
        labeled, labeled_strong = pair_of(batch.labeled, labeled_key, more(key))
        weak, strong = pair_of(batch.unlabeled, weak_key, key if is_point(batch.unlabeled) else strong_key)
        first = Views(labeled, batch.labels, weak, strong, labeled_strong, *passed_on)
        further = [pair_of(batch.unlabeled, *jax.random.split(more(key, i))) for i in range(1, max(number))]
        return first._replace(
            more_weak=tuple(weak for weak, _ in further[: number.weak - 1]),
            more_strong=tuple(strong for _, strong in further[: number.strong - 1]),
        )

    def pair_from(memory: PyTree, examples: Array, weak_key: Array, strong_key: Array) -> tuple[Array, Array]:
        if is_picture(examples):
            return both(memory, examples, weak_key, strong_key)
        if has_stored_views(examples):
            return stored_pair(examples, weak_key)
        return examples, _jittered(config, examples, strong_key)  # a weak view of points is what is stored

    def both(memory: PyTree, pictures: Array, weak_key: Array, strong_key: Array) -> tuple[Array, Array]:
        count = parts if not config.at_once else parts_of(len(pictures), max(parts, len(pictures) / config.at_once))
        if count == 1:
            return pair(memory, pictures, weak_key, strong_key)
        # Where a part has fewer pictures than there are devices, those that share a network's batch share it.
        rows = "examples" if len(pictures) // count % devices == 0 else "batch"
        keys = (jax.random.split(key, count) for key in (weak_key, strong_key))
        made = jax.lax.map(lambda part: pair(memory, *part), (split(pictures, count, (rows, None, None, None)), *keys))
        return join(made[0]), join(made[1])

    def pair(memory: PyTree, pictures: Array, weak_key: Array, strong_key: Array) -> tuple[Array, Array]:
        weakly = weak(config, pictures, weak_key)
        return normalize(config, weakly), normalize(config, distort(config.strong, weakly, strong_key, memory))

    def more(key: Array, further: int = 0) -> Array:
        return jax.random.fold_in(key, 3 + further)  # more keys, which leave the three of the split as they are

    return views


def rated_views(config: Augmentation, pictures: Array, key: Array) -> tuple[Array, PyTree]:
    """Distort pictures for a strong view that learns, and return what was drawn for them."""
    weak_key, strong_key = jax.random.split(key)
    its, weakly = LEARNING[type(config.strong)], weak(config, pictures, weak_key)
    distorted, drawn = its.rated_view(config.strong, weakly, strong_key)
    return normalize(config, distorted), drawn


def parts_of(pictures: int, fewest: float) -> int:
    """Return the smallest number of equal parts that is not below `fewest`."""
    return next(count for count in itertools.count(math.ceil(fewest)) if pictures % count == 0)


def eval_view(config: Augmentation) -> Callable[[Array], Array]:
    """Make the function from stored examples to what a network is asked about."""

    def view(examples: Array) -> Array:
        if has_stored_views(examples):
            return examples[:, 0].astype(jnp.float32)
        if not is_picture(examples):
            return examples
        return normalize(config, crop.centre(examples, config.size, config.centre) if config.size else examples)

    return view


class Typed(Protocol):
    """An array, or what stands for one."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what it holds."""


class Examples(Typed, Protocol):
    """An array of examples, or pictures on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many, and the shape of each."""


def is_picture(examples: Typed) -> bool:
    """Tell pictures from points, by their type."""
    return bool(examples.dtype == jnp.uint8)


def can_differ(config: Augmentation, examples: Array | NDArray[Any]) -> bool:
    """Tell whether two strong views of one of these examples can differ."""
    if has_stored_views(examples):
        return examples.shape[1] > 3  # the eval view and one pair
    return is_picture(examples) or config.jitter > 0


def sides(config: Augmentation, examples: Examples) -> tuple[int, ...]:
    """Return the height and width of a picture's views; points and features have none."""
    if not is_picture(examples):
        return ()
    return (config.size,) * 2 if config.size else examples.shape[1:3]


def is_point(examples: Array) -> bool:
    """Tell points from pictures and stored views."""
    return not is_picture(examples) and not has_stored_views(examples)


def has_stored_views(examples: Array | NDArray[Any]) -> bool:
    """Tell stored views, float16 [B, 1 + 2 V, D], from pictures and points: features/stored_views.py makes them."""
    return bool(examples.dtype == jnp.float16) and examples.ndim == 3


def stored_pair(examples: Array, key: Array) -> tuple[Array, Array]:
    """Draw one of the stored weak views of each example, and the strong view that was made from it."""
    pairs = (examples.shape[1] - 1) // 2
    place = jax.random.randint(key, (len(examples),), 1, 1 + pairs)

    def take(place: Array) -> Array:
        return jnp.take_along_axis(examples, place[:, None, None], axis=1)[:, 0].astype(jnp.float32)

    return take(place), take(place + pairs)


def weak(config: Augmentation, pictures: Array, key: Array) -> Array:
    """Mirror and crop, still as uint8."""
    if config.weak.crop == "resized":
        return crop.random_resized(pictures, key, config.weak.flip, config.size)
    if config.weak.crop == "centre":
        return crop.flip_and_shift(crop.centre(pictures, config.size, config.centre), key, config.weak.flip, 0)
    return crop.flip_and_shift(pictures, key, config.weak.flip, config.weak.shift_pixels)


def normalize(config: Augmentation, pictures: Array) -> Array:
    """Turn uint8 into the floats that networks take."""
    if len(config.mean) not in (1, pictures.shape[-1]):
        raise ConfigError(
            f"augmentation.mean and std take one number, or one for each of the {pictures.shape[-1]} channels of these "
            f"pictures, got {len(config.mean)}"
        )
    # Subtract, then multiply: a division by a constant, or a product first, is rounded otherwise when compiled.
    mean, scale = 255 * np.asarray(config.mean), 1 / (255 * np.asarray(config.std))
    return (pictures.astype(jnp.float32) - mean.astype(np.float32)) * scale.astype(np.float32)


def _jittered(config: Augmentation, points: Array, key: Array) -> Array:
    if not config.jitter:
        return points
    return points + config.jitter * jax.random.normal(key, points.shape, points.dtype)
