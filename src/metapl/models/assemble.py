"""Put a network of heads together (heads.py): an encoder's weights and those of perceptrons trained on its features."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from metapl.models.heads import LAST, HeadGroup, Heads
from metapl.models.mlp import MLP
from metapl.models.side_by_side import SideBySide, Takes, name_of
from metapl.schema import ConfigError
from metapl.types import Weights

LINEAR = MLP(hidden=())


class Encoder(NamedTuple):
    """A network that gives features, and what brings pictures into the form that it takes."""

    model: Heads  # its groups do not matter
    weights: Weights  # encoder/… and scale/…
    mean: tuple[float, ...]  # of pictures from 0 to 1, as in `augmentation`
    std: tuple[float, ...]


class Head(NamedTuple):
    """A classifier on features."""

    model: MLP
    weights: Weights


class Assembled(NamedTuple):
    """A whole network."""

    model: Heads
    weights: Weights


def linear(coefficients: ArrayLike, intercepts: ArrayLike) -> Head:
    """Make a head of scikit-learn's coef_ [C, D] and intercept_ [C]; of two classes it may have one row only."""
    rows, bias = np.atleast_2d(np.asarray(coefficients, np.float32)), np.atleast_1d(np.asarray(intercepts, np.float32))
    if len(rows) == 1:  # the logit of the second class; that of the first is 0
        rows, bias = np.concatenate([0 * rows, rows]), np.concatenate([0 * bias, bias])
    return Head(LINEAR, Weights({"Dense_0": {"kernel": jnp.asarray(rows.T), "bias": jnp.asarray(bias)}}, {}))


def without_classifier(model: Heads, weights: Weights, mean: tuple[float, ...], std: tuple[float, ...]) -> Encoder:
    """Make an encoder of a network's weights; its features are not scaled."""
    width = len(weights.params[LAST]["kernel"])
    params = {name: layer for name, layer in weights.params.items() if name != LAST}
    scale = {"mean": jnp.zeros(width), "factor": jnp.ones(width)}
    stats = {"encoder": weights.stats} if weights.stats else {}
    return Encoder(model, Weights({"encoder": params, "scale": scale}, stats), mean, std)


def assemble(encoder: Encoder, heads: Sequence[Head]) -> Assembled:
    """Make the network that averages what these heads predict."""
    if not heads:
        raise ConfigError("a network of heads needs at least one head")
    groups, params = [], dict(encoder.weights.params)
    for number, (model, members) in enumerate(itertools.groupby(heads, lambda head: head.model)):
        layers = [head.weights.params for head in members]
        groups.append(HeadGroup(len(layers), model.hidden, model.activation))
        for layer in range(len(model.hidden) + 1):
            name, one_wide = f"Dense_{layer}", layer == 0
            params[f"group{number}_{layer}"] = {
                leaf: _joined([head[name][leaf] for head in layers], one_wide) for leaf in ("kernel", "bias")
            }
    model = dataclasses.replace(encoder.model, groups=tuple(groups))
    return Assembled(model, Weights(params, encoder.weights.stats))


def side_by_side(encoders: Sequence[Encoder]) -> Encoder:
    """Make one encoder of several: its features are theirs, one after the other."""
    first = encoders[0]
    params, scales, stats = {}, [], {}
    for number, (model, weights, _, _) in enumerate(encoders):
        if model.frozen_norms != first.model.frozen_norms:
            raise ConfigError("only encoders with equal frozen_norms can be put side by side")
        params[name_of(number)] = weights.params["encoder"]
        scales.append(weights.params["scale"])
        if own := weights.stats.get("encoder"):
            stats[name_of(number)] = own
    scale = {part: jnp.concatenate([own[part] for own in scales]) for part in ("mean", "factor")}
    networks = SideBySide(tuple(encoder.model.encoder for encoder in encoders))
    joined = first
    if len({takes(encoder) for encoder in encoders}) > 1:
        networks = dataclasses.replace(networks, takes=tuple(map(takes, encoders)))
        as_it_comes = dataclasses.replace(first.model, size=0, colour=False, mirror=False)
        joined = Encoder(as_it_comes, first.weights, Takes.mean, Takes.deviation)
    return joined._replace(
        model=dataclasses.replace(joined.model, encoder=networks),
        weights=Weights({"encoder": params, "scale": scale}, {"encoder": stats} if stats else {}),
    )


def takes(encoder: Encoder) -> Takes:
    """The pictures that an encoder takes."""
    model = encoder.model
    return Takes(model.size, model.colour, encoder.mean, encoder.std, model.mirror)


def taken_apart(
    model: Heads, weights: Weights, mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[Encoder, Head]:
    """Undo `assemble` for a network with one linear head."""
    params = dict(weights.params)
    head = Head(LINEAR, Weights({"Dense_0": params.pop("group0_0")}, {}))
    return Encoder(model, Weights(params, weights.stats), mean, std), head


def _joined(leaves: Sequence[Any], one_wide: bool) -> Any:
    """The first layers of a group are one wide layer, since all see the same features; later ones are stacked."""
    return jnp.concatenate(leaves, axis=-1) if one_wide else jnp.stack(leaves)
