"""Climb: rung after rung, each a model that can be used, until the budget is used up or nothing is left to try.

    linear             logistic regression on the features of the labelled pictures: scikit-learn's answer
    aligned            self-training whose labels keep the classes' shares (recipe/aligned.py)
    self_training      logistic regression that labels unlabelled pictures round by round, by scikit-learn
    label_spreading    labels spread over nearest neighbours, by scikit-learn, then a linear head
    joint              one head on the features of several pretrained networks and patches, if there is time
    own_network        a small network that only your own pictures train, with patches, if nothing is pretrained
    finetuned          the pretrained network itself, on labels and on labels that a model gives, if there is time
    joint_finetuned    one head on the features of all these networks, pretrained and finetuned
    uda, fixmatch, mpl heads on the features, several seeds at once
    finetuned_mpl      the finetuned network, trained on with Meta Pseudo Labels, if there is still time
    ensemble           heads of several rungs together, if that makes the validation labels more probable
    baseline, network  a larger network trained itself, on the labels and then with MPL, if there is time

After each rung, model.json names the best one so far.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from metapl.config import Config, Stage
from metapl.evaluate import predictor
from metapl.fit import (
    classical,
    companions,
    finetuned,
    finetuned_mpl,
    head_runs,
    joint,
    leave_out_foreign,
    network,
    own_network,
    select,
)
from metapl.fit import rung as rungs
from metapl.fit.climb import Climb, listening
from metapl.fit.clock import in_words
from metapl.fit.composed import LINEAR_STAGES, write_composed
from metapl.fit.curve import learning_curve
from metapl.fit.encode import (
    encode_labeled,
    encode_unlabeled,
    encode_views,
    head_features,
    unlabeled_are_encoded,
)
from metapl.fit.folder import FORMAT, MODEL, write_json
from metapl.fit.heads import keep, kept, log_probabilities
from metapl.fit.listing import GOES_ON
from metapl.fit.rung import TITLES, About, Predictions, Rung
from metapl.models.assemble import Head
from metapl.recipe.heads import Method
from metapl.schema import ConfigError
from metapl.system import runtime, signals
from metapl.system.signals import TIME_IS_UP, Stopped

RUNS = {finetuned.FINETUNED: tuple(finetuned.LISTS), finetuned_mpl.NAME: (finetuned_mpl.RUN,)}
OTHERS_SHARE = 0.1  # of the time that is left, for each classical rung that is hardly ever chosen
LEAST_FOR_A_NETWORK_S = 120.0  # seconds that must be left
LEAST_FOR_HEADS_S = 25.0  # seconds: compiling takes up to 20 on a busy machine, and nothing can stop it


def climb(climb: Climb) -> None:
    """Go up as far as the time allows. Raises Stopped if the user asks; a deadline only ends the climb."""
    try:
        encode_labeled(climb)
        linear(climb)  # always done, however long it takes: it is the first usable model
        if unlabeled_are_encoded(climb):  # the verdict of a fit that goes on needs them, even if no time is left
            encode_unlabeled(climb)
            leave_out_foreign.leave_out(climb)
        with signals.within(max(0.0, climb.left_s)):
            go_on(climb)
    except Stopped as stopped:
        if stopped.signal != TIME_IS_UP:
            raise
    for name in (*classical.WITH_UNLABELED, *head_runs.METHODS) if climb.has_unlabeled else ():
        if not rungs.finished(climb.out, name):
            climb.left_out.setdefault(name, "no time was left")
    if own_network.is_promising(climb) and not rungs.finished(climb.out, own_network.NAME):
        climb.left_out.setdefault(own_network.NAME, "no time was left")


def go_on(climb: Climb) -> None:
    """Climb what comes after the first rung."""
    usual, *others = classical.WITH_UNLABELED
    if climb.has_unlabeled and not len(climb.features.used):
        encode_unlabeled(climb)
        leave_out_foreign.leave_out(climb)
    if climb.has_unlabeled:  # not all of them are foreign
        classical_rung(climb, usual)
    curve(climb)  # after the usual choice, which matters more if the time is short
    if climb.has_unlabeled:
        for name in others:  # seconds: what a user would have done anyway stands beside everything else
            classical_rung(climb, name)
    joint_rung(climb)
    own_network_rung(climb)
    finetuned_rung(climb)  # before heads, which are hardly ever chosen
    if joint.is_promising(climb) and joint.is_too_late(climb) and companions.candidates(climb):
        climb.left_out.pop(joint.NAME, None)
        climb.skipped[joint.NAME] = joint.TOO_LATE
    joint_finetuned_rung(climb)
    if climb.has_unlabeled and encode_views(climb):
        for method in head_runs.METHODS:
            head_rung(climb, method)
    finetuned_mpl_rung(climb)
    ensemble(climb)
    network_rungs(climb)


@contextmanager
def attempt(climb: Climb, name: str, share: float) -> Iterator[float | None]:
    """Give a rung at most this share of the time that is left; None if it is finished, or there is no time.

    A rung that does not get done in its time is left out.
    """
    left_s = climb.left_s
    if rungs.finished(climb.out, name):
        yield None
        return
    if left_s <= 1:
        climb.left_out[name] = "no time was left"
        yield None
        return
    climb.say(f"rung {len(rungs.climbed(climb.out)) + 1}: {TITLES[name]} ({climb.clock})")
    try:
        with signals.within(share * left_s):
            yield time.monotonic()
    except Stopped as stopped:
        if stopped.signal != TIME_IS_UP:
            raise
        climb.left_out[name] = f"it was not finished in {in_words(share * left_s)}"
        climb.say(f"{TITLES[name]}: left out, because {climb.left_out[name]}")


def linear(climb: Climb) -> None:
    """Scikit-learn's answer."""
    if rungs.finished(climb.out, "linear"):
        return
    climb.say(f"rung 1: {TITLES['linear']} ({climb.clock})")
    began, some = time.monotonic(), climb.features
    with listening(climb) as stop:
        check = partial(stop.check, TITLES["linear"], GOES_ON)
        regressions = classical.Regressions(some, check)
        c = climb.plan.get("c") or climb.plan.decide("c", regressions.choose_c())
        head = classical.logistic(some.labeled, some.labels, len(some.class_names), c)
        folds = regressions.of_folds(c)
        finish(climb, About("linear", TITLES["linear"], "linear", False), [head], folds, began, remark=f"C = {c:g}")


def curve(climb: Climb) -> None:
    """Measure the learning curve, once."""
    if climb.plan.get("curve") is None:
        with listening(climb) as stop:
            check = partial(stop.check, "the learning curve", GOES_ON)
            climb.plan.decide("curve", learning_curve(climb.features, climb.plan.get("c"), check))


def classical_rung(climb: Climb, name: str) -> None:
    """Aligned self-training, self-training or label spreading."""
    method = classical.WITH_UNLABELED[name]
    some, c = climb.features, climb.plan.get("c")
    classes = len(some.class_names)
    with attempt(climb, name, share=0.9 if name in select.PREFERRED else OTHERS_SHARE) as began:
        if began is None:
            return
        with listening(climb) as stop:
            folds = classical.cross_validated(
                some,
                lambda x, y: method(x, y, some.unlabeled, classes, c),
                partial(stop.check, TITLES[name], GOES_ON),
            )
            head = method(some.labeled, some.labels, some.unlabeled, classes, c)
            finish(climb, About(name, TITLES[name], "linear", True), [head], folds, began)


def finetuned_rung(climb: Climb) -> None:
    """Finetune the pretrained network, if there is one, and there are labels, time and memory for it."""
    if finetuned.is_promising(climb) and has_room(
        climb, finetuned.FINETUNED, finetuned.why_no_time, finetuned.why_no_memory
    ):
        train_network(climb, finetuned.FINETUNED, finetuned.train_rung)


def joint_rung(climb: Climb) -> None:
    """Train a head on several encoders together, if there are several, and time to encode by them."""
    if not joint.is_promising(climb) or joint.is_too_late(climb):
        return
    joint.weigh_patches(climb)
    if not companions.candidates(climb) or not has_room(climb, joint.NAME, joint.why_no_time, joint.why_no_memory):
        return
    with attempt(climb, joint.NAME, joint.share(climb)) as began:
        if began is None:
            return
        try:
            companions.encode_all(climb)
        except ConfigError as error:  # a damaged package must not end a fit that can do without it
            climb.skipped[joint.NAME] = str(error).rstrip(".")
            return
        with listening(climb) as stop:
            predictions, remark = joint.train_joint(climb, partial(stop.check, TITLES[joint.NAME], GOES_ON))
        about = About(joint.NAME, TITLES[joint.NAME], "network", climb.has_unlabeled)
        complete(climb, Rung(about, time.monotonic() - began, predictions, remark))


def joint_finetuned_rung(climb: Climb) -> None:
    """Train a head on the pretrained networks and the finetuned one together, if there are both."""
    name = joint.WITH_FINETUNED
    if not joint.can_be_joined(climb):
        return
    if why := joint.why_not_joined(climb):
        climb.left_out[name] = why
        return
    with attempt(climb, name, share=0.9) as began:
        if began is None:
            return
        with listening(climb) as stop:
            predictions = joint.train_with_finetuned(climb, partial(stop.check, TITLES[name], GOES_ON))
        about = About(name, TITLES[name], "network", True)
        complete(climb, Rung(about, time.monotonic() - began, predictions))


def own_network_rung(climb: Climb) -> None:
    """Train a small network from nothing and put it beside patches, if nothing is pretrained and there is time."""
    if not own_network.is_promising(climb):
        return
    if not has_room(climb, own_network.NAME, own_network.why_no_time, lambda _: ""):
        return
    with attempt(climb, own_network.NAME, own_network.SHARE) as began:
        if began is None:
            return
        predictions, remark = own_network.train_rung(climb, time.monotonic() + own_network.PLANNED * climb.left_s)
        about = About(own_network.NAME, TITLES[own_network.NAME], "network", climb.has_unlabeled)
        complete(climb, Rung(about, time.monotonic() - began, predictions, remark))


def finetuned_mpl_rung(climb: Climb) -> None:
    """Train the finetuned network on with Meta Pseudo Labels, if there is one, and time and memory for it."""
    if finetuned_mpl.is_promising(climb) and has_room(
        climb, finetuned_mpl.NAME, finetuned_mpl.why_no_time, finetuned_mpl.why_no_memory
    ):
        train_network(climb, finetuned_mpl.NAME, finetuned_mpl.train_rung)


def has_room(climb: Climb, name: str, no_time: Callable[[Climb], str], no_memory: Callable[[Climb], str]) -> bool:
    """Whether there is enough time and memory for a rung; if not, note why it is left out."""
    if why := no_time(climb):
        climb.left_out[name] = why
    elif why := no_memory(climb):
        climb.not_tried[name] = why
    if why:
        climb.say(f"{TITLES[name]}: left out, because {why}")
    return not why


def train_network(climb: Climb, name: str, train_rung: Callable[[Climb, float], Predictions]) -> None:
    """Finetune a network in most of the time that is left."""
    with attempt(climb, name, finetuned.SHARE) as began:
        if began is None:
            return
        predictions = train_rung(climb, time.monotonic() + finetuned.PLANNED * climb.left_s)
        about = About(name, TITLES[name], "network", finetuned.learns_unlabeled(climb))
        remark = f"{sum(climb.plan.get(f'{run}_steps') or 0 for run in RUNS[name]):,} steps"
        if len(climb.features.learnt) < len(climb.features.used):
            remark += f", {len(climb.features.learnt):,} of {len(climb.features.used):,} unlabelled pictures"
        complete(climb, Rung(about, time.monotonic() - began, predictions, remark))


def head_rung(climb: Climb, name: Method) -> None:
    """Heads trained by one of our methods: some without a fold, which say how good it is, some with all labels."""
    expected_s = max(LEAST_FOR_HEADS_S, head_runs.WORK[name] * (climb.plan.get("heads_s") or 0.0))
    if expected_s > climb.left_s and not rungs.finished(climb.out, name):
        climb.left_out[name] = f"it would have taken about {in_words(expected_s)} or more"
        return
    with attempt(climb, name, share=0.7) as began:
        if began is None:
            return
        config = head_settings(climb, name)
        folds, heads = head_runs.trained(climb.out, name, config, climb.features, climb.console)
        climb.plan.decide("heads_s", (time.monotonic() - began) / head_runs.WORK[name])
        finish(climb, About(name, TITLES[name], "heads", True), heads, folds, began, config.stages)


def head_settings(climb: Climb, name: Method) -> Config:
    """The settings of a run of heads."""
    steps = climb.plan.decide("head_steps", head_runs.steps_for(climb.request, climb.clock.budget_s))
    scale = head_runs.scale_of(climb.features, climb.plan.get("c"))
    return head_runs.settings(name, head_features(climb, climb.plan.get("views_of")), climb.request, scale, steps)


def ensemble(climb: Climb) -> None:
    """Put rungs together one by one, as long as that makes the validation pictures' labels more probable."""
    if rungs.finished(climb.out, "ensemble") or not climb.features.folds:
        return
    of_heads = [rung for rung in climb.rungs() if rung.about.kind != "network"]  # all on the same features
    chosen = select.together(of_heads, climb.features.validation_labels)
    if len(chosen) < 2:
        return
    began = time.monotonic()
    heads: list[Head] = []
    members = [kept(climb.out / rung.about.name) for rung in chosen]
    most = max(map(len, members))
    for own in members:  # each rung counts the same: fewer heads are repeated
        heads += [own[i % len(own)] for i in range(most)]
    folds = select.mean_of([rung.predictions.validation for rung in chosen])[: len(climb.features.labels)]
    about = About("ensemble", TITLES["ensemble"], "heads", any(rung.about.uses_unlabeled for rung in chosen))
    finish(climb, about, heads, folds, began, remark=" + ".join(rung.about.title for rung in chosen))


def network_rungs(climb: Climb) -> None:
    """Train a network itself, if it is asked for, or if nothing is pretrained and there is time."""
    if climb.request.network == "auto" and not has_room(climb, network.BASELINE, too_late, hopeless):
        return
    some = climb.features
    network.write_list(climb.out, some)
    side, left_s = climb.facts["side"], climb.left_s
    chosen = network.planned(climb.out, climb.plan, some, climb.request, side, left_s)
    for reason in chosen.reasons:
        climb.say(f"chosen for the network: {reason}")
    for name in (network.BASELINE, network.NETWORK) if climb.has_unlabeled else (network.BASELINE,):
        with attempt(climb, name, share=1.0) as began:
            if began is None:
                continue
            network.train_rung(climb.out, name, chosen.choice, climb.request, climb.console)
            predictions = network.predict(predictor.load(climb.out / name), some)
            about = About(name, TITLES[name], "network", name == network.NETWORK)
            complete(climb, Rung(about, time.monotonic() - began, predictions, "; ".join(chosen.reasons)))


def too_late(climb: Climb) -> str:
    """Why there is too little time to train a network itself; empty if there is enough, or it has begun."""
    if has_network(climb) or hopeless(climb):
        return ""
    if climb.clock.left_s < max(LEAST_FOR_A_NETWORK_S, climb.clock.budget_s / 4):
        return "too little time was left to train a network"
    return ""


def hopeless(climb: Climb) -> str:
    """Why training a network itself is not worth trying, however much time there is; empty if it is."""
    if climb.request.init_from or not runtime.is_cpu() or has_network(climb):
        return ""
    if climb.features.settings.encoder != "patches":
        return "on a CPU, an untrained network would hardly reach the pretrained one; --network trains one"
    if rungs.finished(climb.out, own_network.NAME):
        return "on a CPU, metapl trains the small network; --network trains a larger one instead"
    return ""


def has_network(climb: Climb) -> bool:
    """Whether a network is trained, or an earlier session has begun to."""
    return rungs.finished(climb.out, network.BASELINE) or bool(climb.plan.get("network"))


def finish(
    climb: Climb,
    about: About,
    heads: list[Head],
    folds: rungs.Logits,
    began: float,
    stages: tuple[Stage, ...] = LINEAR_STAGES,
    remark: str = "",
) -> None:
    """Write a rung of heads: its run, its predictions, and which rung is the best so far."""
    some = climb.features
    predictions = Predictions(
        some.validation(folds, log_probabilities(heads, some.val)),
        log_probabilities(heads, some.test),
        np.zeros((0, len(some.class_names)), np.float32),
    )
    keep(climb.out / about.name, heads)
    write_composed(climb.out, about.name, some, heads, predictions.test, stages, climb.request.seed)
    complete(climb, Rung(about, time.monotonic() - began, predictions, remark))


def complete(climb: Climb, rung: Rung) -> None:
    """Note that a rung is finished, and which one is the best so far; say how good it is."""
    about, labels = rung.about, climb.features.validation_labels
    rungs.note_order(climb.out, [*rungs.climbed(climb.out), about.name])  # first: a finished rung is in the list
    rungs.write(climb.out, rung)
    note_best(climb)
    test = float((rung.predictions.test.argmax(-1) == climb.features.test_labels).mean())
    validated = select.validate(rung, labels)
    seen = f", validation {100 * validated.accuracy:.1f} %" if validated else ""
    climb.say(f"{about.title}: test {100 * test:.1f} %{seen}; {in_words(rung.seconds)}")


def note_best(climb: Climb) -> None:
    """Let model.json name the best rung so far, and its temperature."""
    labels = climb.features.validation_labels
    best = select.best(climb.rungs(), labels)
    validated = select.validate(best, labels)
    t = validated.temperature if validated else 1.0
    write_json(climb.out / MODEL, {"format": FORMAT, "run": best.about.name, "temperature": t})
