"""Frames are the training's own weights, and their accuracies and margins are right."""

import dataclasses

import jax
import numpy as np
import pytest

from metapl import data
from metapl.config import load
from metapl.evaluate import held_out
from metapl.report import moons_film
from metapl.report.moons_regions import lattice
from metapl.train.loop import Hooks, train
from metapl.train.program import prepare

SEEDS = [3, 4]


def settings(steps: int):
    config = load("two_moons_supervised")
    return dataclasses.replace(config, stages=(dataclasses.replace(config.stages[0], steps=steps),))


def filmed(config, datasets):
    config = moons_film.pausing(config)
    program = prepare(config, datasets)
    camera = moons_film.Camera(config, program)
    trained = train(config, SEEDS, datasets, Hooks(between=camera.between), program)
    assert program.stages[0].advance._cache_size() == 1, "frames must not compile anything"
    return trained, camera.frames


@pytest.fixture(scope="module")
def made():
    config = settings(320)
    datasets = data.load(config.data, SEEDS, ())
    return config, datasets, *filmed(config, datasets)


def test_all_frames_are_taken(made):
    frames = made[3]
    assert sorted(frames) == moons_film.steps(320)
    assert (min(frames), max(frames), len(frames)) == (1, 320, 29)


def test_a_frame_is_what_a_shorter_training_ends_with(made):
    _, datasets, trained, frames = made
    short = filmed(settings(64), datasets)[0]
    same = jax.tree.map(np.array_equal, (short.weights, trained.weights), (frames[64], frames[320]))
    assert all(jax.tree.leaves(same))
    assert not np.array_equal(*(jax.tree.leaves(frames[step])[0] for step in (64, 320)))


def test_the_course_ends_where_the_result_is(made):
    config, datasets, trained, frames = made
    course = moons_film.course(trained, frames, config.augmentation, datasets)
    assert course.steps.tolist() == moons_film.steps(320, moons_film.COUNTED)
    assert course.accuracies[-1].tolist() == held_out.accuracies(trained, config.augmentation, datasets).tolist()
    early = trained._replace(weights=frames[80])
    assert course.accuracies[4].tolist() == held_out.accuracies(early, config.augmentation, datasets).tolist()


def test_each_frame_is_evaluated_on_its_own_data(made):
    config, datasets, trained, frames = made
    swapped = {step: jax.tree.map(lambda leaf: leaf[::-1], weights) for step, weights in frames.items()}
    shown = moons_film.show(trained, [frames, swapped], datasets, grid=7)
    for film, right, margins in zip((frames, swapped), shown.accuracies, shown.margins, strict=True):
        for frame in (0, 14, 28):
            one = trained._replace(weights=film[shown.steps[frame]])
            assert right[frame] == pytest.approx(held_out.accuracies(one, config.augmentation, datasets), abs=1e-3)
            logits = held_out.logits(one, config.augmentation, [lattice(shown.box, 7)])
            expected = (logits[..., 1] - logits[..., 0]).reshape(2, 7, 7)
            assert margins[frame] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("total", [1, 2, 7, 159, 160, 161, 1000, 8000])
def test_steps_begin_at_the_first_and_end_at_the_last(total):
    found = moons_film.steps(total)
    assert (found[0], found[-1]) == (1, total)
    assert set(moons_film.steps(total, moons_film.COUNTED)) <= set(found)
    stops = moons_film.pausing(settings(total)).checkpoint.steps(total)
    assert set(found) - {1} <= stops, "the loop must come by at all of them"
