"""The nouns that all rooms share.

The way of the data: a source gives arrays, a split says which examples are labelled, the loader gives a `Batch`,
augmentation gives `Views` of it, and an `Algorithm` turns (state, views, key) into the next state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import jax
import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

Array = jax.Array
PyTree = Any
Metrics = dict[str, Array]  # one number each, but for PSEUDO_LABELS
Numbers = Mapping[str, NDArray[np.float32]]  # metrics on the host: a value [R] or a histogram [R, C] for each seed
Listen = Callable[[int, int, Numbers], None]  # (stage, step over all stages, means since the last report)

# The labels [U, C] that a method gave to the unlabelled examples. The loop counts the classes and, if the truth is
# known, the right labels: truth never enters a method, so no method can train on it.
PSEUDO_LABELS = "pseudo_labels"


class Metric(NamedTuple):
    """One number that runs report, and how it is shown; metrics.py lists them."""

    name: str
    meaning: str  # for the docs' table
    unit: Literal["loss", "accuracy", "share", "norm", "h", "steps"]
    whose: Literal["network", "teacher", "student", "run"] = "network"  # network: the only one, or else the teacher
    chart: str = ""  # title of the chart that shows it; empty: none does
    label: str = ""  # its name there
    short: str = ""  # its name on the status line; empty: it is not shown there
    rank: int = 99  # on the status line the lowest come first
    must_move: bool = False  # exactly 0 at every step means that nothing is learnt from unlabelled examples


# Ends the name of a module that stands for several equal ones (models/stacked.py): its weights have a leading axis.
STACKED = "_blocks"
# Ends the name of a module that adapts the one beside it (models/lora.py): it learns, and its neighbours do not.
ADAPTER = "_lora"


class Indices(NamedTuple):
    """Which training examples a batch holds, and of how many: for methods that remember something of each example.

    A state's memory of the unlabelled examples is an array [totals.unlabeled, ...] that `init` makes and that `step`
    reads and writes at `unlabeled`.
    """

    labeled: Array  # [B] int32
    unlabeled: Array  # [U] int32
    totals: "Totals"


@jax.tree_util.register_static
@dataclass(frozen=True)
class Totals:
    """How many training examples there are: known when a step is compiled."""

    labeled: int
    unlabeled: int


class Batch(NamedTuple):
    """What the loader gives at one step: examples as they are stored."""

    labeled: Array  # [B, ...]
    labels: Array  # [B] int32
    unlabeled: Array  # [U, ...]
    labeled_predictions: Array | None = None  # [B, C] stored predictions, for a method that uses them
    predictions: Array | None = None  # [U, C] the same of the unlabeled examples
    truth: Array | None = None  # [U] int32, −1 if unknown: the unlabeled examples' labels, which no view shows
    indices: Indices | None = None  # for a method that declares needs_indices


class Views(NamedTuple):
    """What an algorithm sees of a batch: examples as networks take them."""

    labeled: Array  # [B, ...] float
    labels: Array  # [B] int32
    weak: Array  # [U, ...] float, the unlabeled examples, (almost) as they are
    strong: Array  # [U, ...] float, the same examples, distorted
    labeled_strong: Array | None = None  # [B, ...] float, the labeled examples, distorted; None if it was not made
    labeled_predictions: Array | None = None  # [B, C] as in the batch
    predictions: Array | None = None  # [U, C] as in the batch
    indices: Indices | None = None  # as in the batch
    more_weak: tuple[Array, ...] = ()  # [U, ...] each: further weak views, if the method declares weak_views above 1
    more_strong: tuple[Array, ...] = ()  # [U, ...] each: the i-th is the i-th of the weak views, distorted

    @property
    def all_weak(self) -> tuple[Array, ...]:
        """Return all weak views of the unlabelled examples, the first one first."""
        return (self.weak, *self.more_weak)

    @property
    def all_strong(self) -> tuple[Array, ...]:
        """Return all strong views of the unlabelled examples, the first one first."""
        return (self.strong, *self.more_strong)

    def unlabeled_as(self, view: Literal["weak", "strong"]) -> Array:
        """Return the weak or the strong view of the unlabelled examples."""
        return self.strong if view == "strong" else self.weak

    def labeled_as(self, view: Literal["weak", "strong"]) -> Array:
        """Return the weak or the strong view of the labelled examples."""
        if view == "weak":
            return self.labeled
        if self.labeled_strong is None:
            raise ValueError("these views have no strong view of the labelled examples")
        return self.labeled_strong


class Weights(NamedTuple):
    """All that a network needs to predict."""

    params: PyTree  # what gradients move
    stats: PyTree  # what forward passes move: batch-norm averages; empty without them


class Learner(NamedTuple):
    """A network in training."""

    params: PyTree
    stats: PyTree
    opt_state: PyTree
    average: Weights | None = None  # over the updates; None if none is kept: it is as large as the network
    updates: Array | int = 0  # so far
    memory: PyTree = ()  # what its method remembers from step to step (see `Objective`); empty if nothing

    @property
    def current(self) -> Weights:
        """Return the weights that training goes on with."""
        return Weights(self.params, self.stats)

    @property
    def weights(self) -> Weights:
        """Return the weights to evaluate: the average if one is kept, which training itself never uses."""
        return self.current if self.average is None else self.average


class LossTerms(NamedTuple):
    """The terms of a method's loss on one batch, and what else their forward passes give."""

    labeled: Array  # the term on labelled examples
    stats: PyTree  # the network's statistics after the passes
    metrics: Metrics
    unlabeled: Array | float = 0.0  # the terms on unlabelled examples, with their factors
    weak_logits: Array | None = None  # [U, C] of the weak view; None if the method does not look at it
    strong_logits: Array | None = None  # [U, C] of the strong view, likewise
    memory: PyTree = ()  # `learner.memory` after this batch; no gradient flows through it

    def logits_of(self, view: Literal["weak", "strong"]) -> Array | None:
        """Return the logits of the weak or the strong view of the unlabelled examples."""
        return self.strong_logits if view == "strong" else self.weak_logits


# (parameters, learner, views, key) -> terms, for gradients with respect to the parameters. The learner holds what else
# the loss depends on: statistics, the number of updates so far, and what the method remembers.
MethodLoss = Callable[[PyTree, Learner, Views, Array], LossTerms]


class Apply(Protocol):
    """A forward pass: logits, and the statistics after it."""

    def __call__(
        self, params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        """In training mode, `key` draws the dropout masks and the statistics move."""


def no_features(
    params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
) -> tuple[Array, PyTree]:
    """Say that a network has none: T' of Reduced MPL and the networks of some tests."""
    raise TypeError("this network does not say what its features are")


class Network(NamedTuple):
    """A model as two pure functions.

    `with_dropout(rate)` returns the same network, for the same weights, with another dropout rate: the paper's teacher
    and student differ in nothing else (Table 8). A model without dropout raises a ConfigError.
    `features` is `apply` without the classifier: it returns what the last dense layer is given, and the statistics.
    """

    init: Callable[[Array, Array], Weights]  # (key, inputs) -> weights
    apply: Apply
    with_dropout: Callable[[float], "Network"]
    loops: bool = True  # are its steps as fast in a loop on the device as one by one? (See ModelConfig.)
    features: Apply = no_features
    scaled_to: int = 0  # shorter side in pixels that it scales pictures to itself; 0: it sees them as they come


class Labeler(NamedTuple):
    """Which network gives a method's pseudo labels: for reports; training does not use it."""

    weights: Callable[[PyTree], Weights]  # (state) -> those that label at the next step
    teaches: bool = False  # does another network learn from it? Else it labels for itself
    # The network that the weights belong to, if it is not the method's: its inputs are stored predictions, not examples
    corrector: Network | None = None


class Objective(NamedTuple):
    """What a method with one network minimises, and what it remembers from step to step.

    It can be minimised alone (`learner.alone`), or be the own method of MPL's teacher. `start(learner, views, key)`
    makes the first memory. `loss` reads `learner.memory` and returns the next one. `follow(memory, learner)` is called
    after the update, for a memory that depends on the new weights, as their moving average does.
    """

    loss: MethodLoss
    start: Callable[[Learner, Views, Array], PyTree] = lambda learner, views, key: ()
    follow: Callable[[PyTree, Learner], PyTree] = lambda memory, learner: memory
    predictor: Callable[[Learner], Weights] = lambda learner: learner.weights  # the weights to evaluate
    labeler: Labeler | None = Labeler(lambda learner: learner.current)


class Algorithm(NamedTuple):
    """A method as three pure functions. The loop knows nothing else about it.

    `init(key, views, start)` makes the first state; `start` holds the weights that the stage before
    handed on (a trained teacher, a student to finetune), or None.
    `step(state, views, key)` does one step. `predictor(state)` returns the weights to evaluate. `labeler` says which
    network gives the pseudo labels, if they change during training.
    """

    init: Callable[[Array, Views, Weights | None], PyTree]
    step: Callable[[PyTree, Views, Array], tuple[PyTree, Metrics]]
    predictor: Callable[[PyTree], Weights]
    labeler: Labeler | None = None


@dataclass(frozen=True)
class ModelConfig:
    """Base of every model's settings; `name` is how files and flags call it."""

    name: ClassVar[str]
    # XLA for CPUs brings gradients of convolutions into the form that it is fast in outside of loops only: a step of
    # WRN-10-1, batch 32, takes 36 ms alone and 1,800 ms in a loop (jax 0.10.2).
    convolutions: ClassVar[bool] = True


@dataclass(frozen=True)
class MethodConfig:
    """Base of every method's settings; `name` is how files and flags call it, `title` how reports do."""

    name: ClassVar[str]
    title: ClassVar[str]

    # What the method needs; the loop and the loaders give nothing else, so a method pays only for what it declares.
    needs_start: ClassVar[bool] = False  # weights that the stage before has trained
    uses_unlabeled: ClassVar[bool] = True  # unlabelled examples; if not, none are read from files
    uses_labels: ClassVar[bool] = True  # labels; if not, a later stage has to train the classifier
    uses_stored_predictions: ClassVar[bool] = False  # of the stage before's network: see StoredPredictionsConfig
    needs_indices: ClassVar[bool] = False  # `Views.indices`, for memory of single examples
    weak_views: ClassVar[int] = 1  # of each unlabelled example, each drawn by itself: `Views.all_weak`
    strong_views: ClassVar[int] = 1  # the same of strong views: `Views.all_strong`

    metrics: ClassVar[tuple[Metric, ...]] = ()  # that only this method reports; metrics.py lists the common ones
    moved: ClassVar[Mapping[str, str]] = {}  # old place of a setting -> its place now (schema.py)

    @property
    def pieces(self) -> "tuple[MethodConfig, ...]":
        """Return this method, and those whose losses it takes as pieces: each declares what it needs."""
        return (self,)

    @property
    def views_needed(self) -> tuple[int, int]:
        """Return how many weak and strong views of each unlabelled example it needs, if its settings say so."""
        return self.weak_views, self.strong_views

    @property
    def remembers_examples(self) -> bool:
        """Return whether the method or one of its pieces needs indices."""
        return any(piece.needs_indices for piece in self.pieces)

    @property
    def selection(self) -> "Keep":
        """Return which unlabelled examples are learnt from: all of them, unless the settings say otherwise."""
        return Keep()

    @property
    def needs_pictures(self) -> bool:
        """Return whether the method, with these settings, needs pictures, not points."""
        return False

    @property
    def changes_size(self) -> bool:
        """Return whether the method shows the network pictures of other sizes than the views'."""
        return False

    def check_batches(self, labeled: int, unlabeled: int) -> None:
        """Raise ValueError if the method cannot learn from batches of these sizes."""

    def check_examples(self, unlabeled: int, sides: tuple[int, ...]) -> None:
        """Raise ValueError if the method cannot learn from so many unlabelled examples with views of this size.

        `sides` are a picture's height and width; of points and features there are none.
        """


@dataclass(frozen=True)
class Keep:
    """Which unlabelled examples are learnt from, by a fixed network's predictions."""

    per_class: Annotated[int, Ge(0)] = 0
    """Keep the K most probable of each class (the paper's K); if a class has fewer, they are repeated. 0 keeps all."""
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Leave out examples whose best class has a lower probability than this; Noisy Student takes 0.3."""
    rank: Literal["top_class", "each_class"] = "top_class"
    """Whether an example competes in its most probable class only, or in every class (see `metapl data select`)."""


@dataclass(frozen=True)
class StoredPredictionsConfig(MethodConfig):
    """Settings of methods that learn from the stage before's predictions for each training example.

    That network predicts once, before the stage begins (`train/stored_predictions.py`), and is freed before the stage
    makes its own. Its weights do not initialise the stage's network; the two may be of different models. Ask for
    `uses_stored_predictions` to tell these methods from others.
    """

    needs_start: ClassVar[bool] = True
    uses_stored_predictions: ClassVar[bool] = True

    keep: Keep = Keep()

    @property
    def selection(self) -> Keep:
        """Return which unlabelled examples are learnt from."""
        return self.keep
