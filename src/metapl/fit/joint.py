"""The rungs with one head on several networks at once: what one of them misses, another may show.

joint               the fit's own pretrained network and its companions (companions.py): others, and patches
joint_finetuned     the same and the finetuned network; without companions, the pretrained and the finetuned one

    the head is aligned self-training (recipe/aligned.py) on the features of all networks (joint_space.py);
    without unlabelled pictures, that is logistic regression, and there is no joint_finetuned

Where finetuning has gained, the head follows the finetuned network; where a pretrained one knew better, that is still
there. A prediction takes as long as those of all networks together.
"""

from metapl.evaluate import predictor
from metapl.fit import classical, companions, finetuned, joint_space, own_patches
from metapl.fit import rung as rungs
from metapl.fit.climb import Check, Climb
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.encoded import Labels, Values
from metapl.fit.finetuned import CHECK, FINETUNED, START
from metapl.fit.heads import log_probabilities
from metapl.fit.joint_space import Space
from metapl.fit.rung import Predictions
from metapl.models.assemble import Head
from metapl.system import memory

NAME, WITH_FINETUNED = finetuned.JOINT, "joint_finetuned"
MARGIN = 1.5  # for a machine that becomes slower
TOO_LATE = "the network was finetuned without the others; a new fit in another folder, with a larger budget, tries them"
JOINING_S = 1.0  # to find the directions of a network's features


def is_promising(climb: Climb) -> bool:
    """Whether there are other encoders, and a rung of one head that says what training it costs."""
    others = own_patches.may_be_tried(climb) or bool(companions.candidates(climb))
    return others and (finetuned.learns_unlabeled(climb) or not climb.has_unlabeled)


def weigh_patches(climb: Climb) -> None:
    """Decide whether patches are used, if that is open, and there is time and memory to learn some."""
    if climb.plan.get(companions.NAMES) is not None or not own_patches.may_be_tried(climb):
        return
    free = memory.memory()[1]
    in_time = own_patches.learning_s(climb) <= companions.SHARE * climb.left_s
    if in_time and (free is None or own_patches.learning_bytes(climb) <= free):
        own_patches.weigh(climb)


def is_too_late(climb: Climb) -> bool:
    """Whether no network can be added any more: what finetuning learns depends on them."""
    return finetuned.has_begun(climb) and not rungs.finished(climb.out, NAME)


def why_no_memory(climb: Climb) -> str:
    """Why no other network is used, however much time there is; empty if there is memory for one."""
    return "" if companions.in_memory(climb, 1) else "there was too little memory for the features of another network"


def why_no_time(climb: Climb) -> str:
    """Why no other network is used for lack of time; empty if one is, or if memory is lacking."""
    if companions.chosen(climb) or why_no_memory(climb):
        return ""
    return "there was too little time to encode the pictures by another network"


def share(climb: Climb) -> float:
    """What share of the time that is left the rung may take: MARGIN times what it should, and half at most."""
    expected_s = companions.needed_s(climb, companions.chosen(climb))[-1]
    return min(0.5, MARGIN * expected_s / max(climb.left_s, 1.0))


def train_joint(climb: Climb, check: Check) -> tuple[Predictions, str]:
    """Train the head, write the rung, predict the pictures that judge it, and all unlabelled ones; with a remark."""
    some = climb.features
    space = joint_space.join(companions.parts(climb))
    z, classes = space.seen, len(some.class_names)
    joined = some._replace(labeled=z.labeled, val=z.val, test=z.test, unlabeled=z.unlabeled)

    def train(x: Values, y: Labels) -> Head:
        return classical.aligned_training(x, y, z.unlabeled, classes, 0.0)

    folds = classical.cross_validated(joined, train, check)
    head = train(z.labeled, some.labels)
    predictions = Predictions(
        some.validation(folds, log_probabilities([head], z.val)),
        log_probabilities([head], z.test),
        log_probabilities([head], z.unlabeled),
    )
    write(climb, NAME, space, head, predictions)
    alone = log_probabilities([classical.logistic(z.labeled, some.labels, classes, climb.plan.get("c"))], z.test)
    accuracy = float((alone.argmax(-1) == some.test_labels).mean())
    names = ", ".join(one.encoder for one in (some.settings, *companions.chosen(climb)))
    return predictions, f"{names}; logistic regression on the features of all: {100 * accuracy:.1f} %"


def can_be_joined(climb: Climb) -> bool:
    """Whether there is a finetuned network, and unlabelled pictures to train a head with."""
    return rungs.finished(climb.out, FINETUNED) and finetuned.learns_unlabeled(climb)


def why_not_joined(climb: Climb) -> str:
    """Why there is too little time to train two heads on all networks; empty if there is enough, or it is done."""
    if rungs.finished(climb.out, WITH_FINETUNED):
        return ""
    others = len(companions.chosen(climb)) if rungs.finished(climb.out, NAME) else 0
    networks = 2 + others
    trained_s = rungs.read(climb.out, companions.ALIGNED).seconds / (climb.features.folds + 1)  # on one network
    needed_s = 2 * networks * (trained_s + JOINING_S)
    return f"it would have taken about {in_words(needed_s)}" if needed_s > climb.left_s else ""


def train_with_finetuned(climb: Climb, check: Check) -> Predictions:
    """Train the head, write the rung, and predict the pictures that judge it; `check` may raise Stopped."""
    some = climb.features

    def train(labeled: Values, labels: Labels, unlabeled: Values) -> Head:
        check()
        return classical.aligned_training(labeled, labels, unlabeled, len(some.class_names), 0.0)

    first_model = finetuned.mean_of(climb, START, CHECK)
    first = finetuned.of_judged(climb, finetuned.features_after_first_run(climb, first_model))
    untested = finetuned.frozen_parts(climb, some.judged, test=False)
    validation = finetuned.validated(some, finetuned.joined(untested, first_model, first).seen, train)[1]

    model = predictor.load(climb.out / FINETUNED)
    before = finetuned.frozen_parts(climb, some.judged)
    space = finetuned.joined(before, model, finetuned.features_of_rung(climb, model))
    head = train(space.seen.labeled, some.labels, space.seen.unlabeled)
    predictions = finetuned.predicted(some, head, space.seen, validation)
    write(climb, WITH_FINETUNED, space, head, predictions)
    return predictions


def write(climb: Climb, name: str, space: Space, head: Head, predictions: Predictions) -> None:
    """Write the run of all networks with this head on their space."""
    encoder, whole = space.network(head)
    write_composed(
        climb.out, name, climb.features, [whole], predictions.test, LINEAR_STAGES, climb.request.seed, encoder
    )
