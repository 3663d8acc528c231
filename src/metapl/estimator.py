"""`from metapl import MetaPseudoLabels`: the method as a scikit-learn classifier.

    MetaPseudoLabels().fit(X, y)                     y has −1 (or None, among names) where there is no label
    MetaPseudoLabels().fit(X, y, unlabeled=U)        unlabelled examples in an array of their own

X are pictures, [N, H, W] or [N, H, W, C] of bytes (or of floats from 0 to 1; other values are refused), or plain
features [N, D]. Without unlabelled examples, the same network learns from the labelled ones alone.

Features are standardised and given to a linear classifier, which starts as scikit-learn's logistic regression and goes
on from there with the unlabelled examples (recipe/points.py). Without those, it is the logistic regression.
A saved model is a folder of weights (safetensors) and settings (TOML, JSON); nothing in it is executed on loading. The
folder of a model for pictures also works as a run's folder, for `metapl predict`, `export` and `serve`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from metapl import config as configs
from metapl import models, recipe
from metapl.augment.views import Augmentation
from metapl.config import Config
from metapl.data.sources.arrays import Arrays
from metapl.data.sources.dataset import Dataset
from metapl.inference.batches import ESTIMATOR
from metapl.inference.forward import Forward, of_network
from metapl.recipe import Choice, points
from metapl.recipe.points import Points
from metapl.runs import run_folder
from metapl.schema import ConfigError, to_dict, validate
from metapl.system.folders import claim
from metapl.train.loop import shapes, train
from metapl.train.program import Program, prepare
from metapl.types import ModelConfig, Network, Weights
from metapl.weights import Example, load_all
from metapl.weights import save as save_weights

UNLABELED = -1
WEIGHTS, ABOUT = "weights.safetensors", "estimator.json"
FORMAT = 1
TINY = 12  # pixels: for pictures up to this side, "auto" is a perceptron


class MetaPseudoLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from few labelled and many unlabelled examples.

    Parameters
    ----------
    network : "auto", "mlp", "wrn-10-1", "wrn-16-2", "wrn-28-2", "resnet-18" or "resnet-50"
        auto is a linear classifier for features, a perceptron for tiny pictures, and a small WideResNet for others.
    steps : updates of the network (of the student, if there are unlabelled examples).
    labeled_batch, unlabeled_batch : examples in a batch.
    learning_rate : of SGD with Nesterov momentum, falling to 0 like a cosine; for a linear classifier, it is divided by
        the mean square of the features.
    mirror : whether a mirrored picture keeps its class; False for digits and letters.
    jitter : for features, the standard deviation of the noise in the teacher's distorted view; features have 1.
    random_state : seed of the first weights and the batches.

    Attributes
    ----------
    classes_ : the labels, sorted.
    n_features_in_ : columns of X, or the height of the pictures.

    """

    def __init__(
        self,
        *,
        network: str = "auto",
        steps: int = 500,
        labeled_batch: int = 32,
        unlabeled_batch: int = 64,
        learning_rate: float = recipe.LEARNING_RATE,
        mirror: bool = True,
        jitter: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.steps = steps
        self.labeled_batch = labeled_batch
        self.unlabeled_batch = unlabeled_batch
        self.learning_rate = learning_rate
        self.mirror = mirror
        self.jitter = jitter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, unlabeled: ArrayLike | None = None) -> Self:  # noqa: N803
        """Learn from X [N, …] and y [N], where −1 (None among names) means no label, and from `unlabeled`."""
        examples, labels = validate_data(self, X, y, **_TAKES)
        known = _is_labeled(labels)
        check_classification_targets(labels[known])
        self.classes_, numbers = np.unique(_plain(labels[known]), return_inverse=True)
        if len(self.classes_) < 2:
            count = "one class" if len(self.classes_) else "no class"
            raise ValueError(f"y has labels of {count} (−1 means no label); a classifier needs at least two classes")
        self.pictures_, self.example_shape_ = examples.ndim > 2, examples.shape[1:]
        if self.pictures_ and (examples.ndim > 4 or (examples.ndim == 4 and examples.shape[-1] not in (1, 3))):
            raise ValueError(f"pictures have the shape [N, H, W] or [N, H, W, 1 or 3], got {list(examples.shape)}")
        more = examples[:0] if unlabeled is None else validate_data(self, unlabeled, reset=False, **_TAKES)
        self._check_shape(more)
        self._learn_scale(examples, more)
        without_label = np.concatenate([self._stored(examples[~known]), self._stored(more)])
        self._train(self._stored(examples[known]), numbers.astype(np.int32), without_label)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Probability of each of `classes_`: [N, classes]."""
        check_is_fitted(self)
        examples = validate_data(self, X, reset=False, **_TAKES)
        self._check_shape(examples)
        forward = Forward(_network(self.config_.model, len(self.classes_)), self.config_.augmentation, "probabilities")
        stored = self._stored(examples)
        probabilities = of_network(forward, _tree(self.weights_), stored, ESTIMATOR).astype(np.float64)
        return np.asarray(probabilities / probabilities.sum(-1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Give the most probable class of each example."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(-1)])

    def save(self, folder: str | Path) -> None:
        """Write the model into a new or empty folder."""
        check_is_fitted(self)
        out = claim(Path(folder))
        example = Example(self._stored_shape(), "uint8" if self.pictures_ else "float32")
        names = [str(name) for name in self.classes_]
        save_weights(out / WEIGHTS, _tree(self.weights_), to_dict(self.config_.model), names, example)
        (out / run_folder.CONFIG).write_text(configs.dump(self.config_), "utf-8")
        about = {
            "format": FORMAT,
            "params": self._plain_params(),
            "classes": self.classes_.tolist(),
            "classes_dtype": self.classes_.dtype.str,
            "pictures": self.pictures_,
            "example_shape": list(self.example_shape_),
            "mean": np.asarray(self.mean_).tolist(),
            "scale": np.asarray(self.scale_).tolist(),
        }
        (out / ABOUT).write_text(json.dumps(about, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; nothing in the files is executed."""
        place = Path(folder)
        try:
            about = json.loads((place / ABOUT).read_text("utf-8"))
            if about["format"] != FORMAT:
                raise ConfigError(f"{place / ABOUT} has format {about['format']}, this version reads {FORMAT}")
            self = cls(**about["params"])
            self.classes_ = np.array(about["classes"], np.dtype(about["classes_dtype"]))
            self.pictures_, self.example_shape_ = bool(about["pictures"]), tuple(about["example_shape"])
            self.mean_, self.scale_ = np.array(about["mean"], float), np.array(about["scale"], float)
        except ConfigError:
            raise
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(f"{folder} is not a saved model: {error!r}") from None
        self.n_features_in_ = self.example_shape_[0]
        self.config_ = configs.load(str(place / run_folder.CONFIG))
        self._load_weights(place / WEIGHTS)
        return self

    def __sklearn_tags__(self) -> Any:
        """Say that X may have more than two axes: pictures have three or four."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _train(self, labeled: NDArray[Any], labels: NDArray[np.int32], unlabeled: NDArray[Any]) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.config_ = self._config(seed, labeled, bool(len(unlabeled)))
        names = tuple(str(name) for name in self.classes_)
        start = None
        if self.config_.model == points.LINEAR:
            start = points.logistic_regression(labeled, labels, len(names)).weights
        if start is None or len(unlabeled):
            pool = unlabeled if len(unlabeled) else labeled[:1]
            dataset = Dataset(labeled, labels, pool, labeled[:1], labels[:1], names)
            program = _program(dataclasses.replace(self.config_, seed=0), len(names))
            first = None if start is None else jax.tree.map(lambda leaf: leaf[None], start)
            trained = train(self.config_, [seed], [dataset], program=program, start_weights=first).weights
            start = jax.tree.map(lambda leaf: leaf[0], trained)
        leaves = flatten_dict({"params": start.params, "batch_stats": start.stats}, sep="/")
        self.weights_ = {name: np.asarray(leaf) for name, leaf in leaves.items()}

    def _config(self, seed: int, labeled: NDArray[Any], semi_supervised: bool) -> Config:
        params = self._plain_params()
        steps = params["steps"]
        choice = Choice(
            network="", size=0, steps=steps, finetune_steps=max(1, steps // 20), learning_rate=params["learning_rate"],
            labeled_batch=params["labeled_batch"], unlabeled_batch=params["unlabeled_batch"],
        )  # fmt: skip
        side = min(self.example_shape_[:2]) if self.pictures_ else 0
        views = Augmentation(jitter=params["jitter"])
        if side:
            views = recipe.augmentation(side, params["mirror"])
        base = Config(seed=seed, data=Arrays(), model=self._model(side), augmentation=views)
        if base.model == points.LINEAR and semi_supervised:
            base = dataclasses.replace(base, stages=(points.mpl(self._points(params, labeled)),))
            validate(base)
            return base
        config = recipe.mpl(choice, base) if semi_supervised else recipe.supervised(choice, base, steps)
        validate(config)
        return config

    def _points(self, params: Mapping[str, Any], labeled: NDArray[Any]) -> Points:
        """What the settings of a linear classifier depend on."""
        square = 1 + float(np.mean(np.sum(labeled**2, -1)))
        rounded = 2.0 ** round(math.log2(square))  # so that fits of similar examples share a program
        batches = params["labeled_batch"], params["unlabeled_batch"]
        return Points(params["steps"], *batches, len(labeled), labeled.shape[1], rounded, params["learning_rate"])

    def _plain_params(self) -> dict[str, Any]:
        """The settings as Python numbers; a search may set NumPy numbers, which TOML and JSON cannot store."""
        params = {name: value for name, value in self.get_params().items() if name != "random_state"}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}

    def _model(self, side: int) -> ModelConfig:
        if self.network not in ("auto", *recipe.NETWORKS):
            raise ValueError(f"network takes auto or one of {', '.join(recipe.NETWORKS)}, got {self.network!r}")
        if self.network == "auto" and not self.pictures_:
            return points.LINEAR
        name = self.network if self.network != "auto" else "wrn-10-1" if side > TINY else "mlp"
        if name != "mlp" and not self.pictures_:
            raise ValueError(f"the network {name} is for pictures; features [N, D] take the mlp")
        return recipe.model(name, side)

    def _learn_scale(self, *examples: NDArray[Any]) -> None:
        """Learn to scale features to mean 0 and deviation 1; pictures are scaled by their type alone."""
        self.mean_, self.scale_ = np.zeros(1), np.ones(1)
        if not self.pictures_:
            wide = np.concatenate(examples).astype(np.float64)
            self.mean_, deviation = wide.mean(0), wide.std(0)
            self.scale_ = np.where(deviation > 1e-12 * (1 + np.abs(self.mean_)), deviation, 1.0)

    def _stored(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Examples as the views take them: bytes [N, H, W, C], or floats [N, D]."""
        if not self.pictures_:
            return ((examples.astype(np.float64) - self.mean_) / self.scale_).astype(np.float32)
        whole = examples.dtype.kind in "iu"
        most = 255 if whole else 1
        if examples.size and (examples.min() < 0 or examples.max() > most):
            raise ValueError(
                f"pictures are whole numbers from 0 to 255 or floats from 0 to 1, got {examples.dtype} from "
                f"{examples.min():.4g} to {examples.max():.4g}; divide by the largest possible value"
            )
        pixels = examples if whole else np.rint(examples.astype(np.float64) * 255)
        return pixels.astype(np.uint8).reshape(len(examples), *self._stored_shape())

    def _stored_shape(self) -> tuple[int, ...]:
        return (*self.example_shape_, 1) if self.pictures_ and len(self.example_shape_) == 2 else self.example_shape_

    def _check_shape(self, examples: NDArray[Any]) -> None:
        if examples.shape[1:] != self.example_shape_:
            have, want = list(examples.shape[1:]), list(self.example_shape_)
            raise ValueError(f"examples have the shape {have}, but the model was fitted with {want}")

    def _load_weights(self, path: Path) -> None:
        dtype: Any = np.uint8 if self.pictures_ else np.float32
        like = np.zeros((1, *self._stored_shape()), dtype)
        dataset = Dataset(like, np.zeros(1, np.int32), like, like, np.zeros(1, np.int32), ())
        network = models.build(self.config_.model, len(self.classes_))
        weights = load_all(path, shapes(self.config_, network, dataset))
        leaves = flatten_dict({"params": weights.params, "batch_stats": weights.stats}, sep="/")
        self.weights_ = {name: np.asarray(leaf) for name, leaf in leaves.items()}


_TAKES: dict[str, Any] = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": True}


def _is_labeled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which examples have a label: neither −1 nor None."""
    if labels.dtype.kind in "iuf":
        return np.asarray(labels != UNLABELED)
    if str(UNLABELED) in labels.tolist():  # NumPy turns −1 into this text if there are names beside it
        raise ValueError("a label is the text '-1'; among names, use None for examples without a label")
    return np.array([label is not None and label != UNLABELED for label in labels.tolist()])


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as an array of their own type, after None was removed."""
    return np.array(labels.tolist()) if labels.dtype == object else labels


def _tree(leaves: Mapping[str, NDArray[Any]]) -> Weights:
    tree = unflatten_dict(dict(leaves), sep="/")
    return Weights(tree["params"], tree.get("batch_stats", {}))


@lru_cache(maxsize=8)
def _program(config: Config, classes: int) -> Program:
    """Make the program that fits share if they differ only in data and seed."""
    empty, labels = np.zeros((0, 1), np.float32), np.zeros(0, np.int32)
    some = np.zeros((1, 1), np.float32)  # prepare refuses semi-supervised methods if there are no unlabelled examples
    names = tuple(map(str, range(classes)))
    return prepare(config, [Dataset(empty, labels, some, empty, labels, names)])


@lru_cache(maxsize=8)
def _network(model: ModelConfig, classes: int) -> Network:
    """Make the network that predictions with equal settings share, so that they compile once."""
    return models.build(model, classes)
