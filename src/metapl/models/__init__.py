"""The networks. A new one is one file here and one row in this table; the contract tests find it there."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn

from metapl.models import (
    convnext,
    efficientnet,
    efficientnet_lite,
    heads,
    mlp,
    patches,
    reduced_teacher,
    resnet,
    side_by_side,
    vit,
    whitened,
    wide_resnet,
)
from metapl.schema import ConfigError, validate
from metapl.types import Array, ModelConfig, Network, PyTree, Weights

# settings -> build(settings, classes)
MODELS: dict[type[ModelConfig], Callable[[Any, int], nn.Module]] = {
    mlp.MLP: mlp.build,
    wide_resnet.WideResNet: wide_resnet.build,
    resnet.ResNet: resnet.build,
    efficientnet.EfficientNet: efficientnet.build,
    efficientnet_lite.EfficientNetLite: efficientnet_lite.build,
    convnext.ConvNeXt: convnext.build,
    vit.ViT: vit.build,
    reduced_teacher.ReducedTeacher: reduced_teacher.build,
    patches.Patches: patches.build,
    whitened.Whitened: whitened.build,
    heads.Heads: lambda config, classes: heads.build(config, classes, inner(config.encoder)),
    side_by_side.SideBySide: lambda config, classes: side_by_side.build(
        config, classes, [inner(one) for one in config.networks]
    ),
}


def inner(config: ModelConfig) -> nn.Module:
    """Make a network whose own classifier is left out."""
    return MODELS[type(config)](config, 1)


def build(config: ModelConfig, classes: int) -> Network:
    """Make the network of these settings, as pure functions."""
    module = MODELS[type(config)](config, classes)

    @jax.jit  # init needs only the shapes of the forward pass; compiled, the pass itself is removed
    def init(key: Array, inputs: Array) -> Weights:
        variables = module.init({"params": key}, inputs, train=False)
        return Weights(variables["params"], variables.get("batch_stats", {}))

    def apply(
        params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        variables = {"params": params, "batch_stats": stats}
        if not train:
            return module.apply(variables, inputs, train=False), stats  # type: ignore[return-value]
        logits, changed = module.apply(
            variables, inputs, train=True, rngs={} if key is None else {"dropout": key}, mutable=["batch_stats"]
        )
        return logits, changed.get("batch_stats", stats)

    def features(
        params: PyTree, stats: PyTree, inputs: Array, *, train: bool, key: Array | None = None
    ) -> tuple[Array, PyTree]:
        return given_to_the_last_dense_layer(lambda: apply(params, stats, inputs, train=train, key=key))

    def with_dropout(rate: float) -> Network:
        if "dropout" not in {field.name for field in dataclasses.fields(config)}:
            raise ConfigError(f"the model {config.name} has no dropout, so its rate cannot be set to {rate}")
        changed = dataclasses.replace(config, dropout=rate)  # type: ignore[call-arg]
        validate(changed)
        return build(changed, classes)

    named, named_features = (jax.named_call(function, name=config.name) for function in (apply, features))
    return Network(init, named, with_dropout, not config.convolutions, named_features, scaled_to(config))


def scaled_to(config: ModelConfig) -> int:
    """The shorter side in pixels that a network scales pictures to; 0: none."""
    if isinstance(config, side_by_side.SideBySide):
        return config.largest
    return (config.size or scaled_to(config.encoder)) if isinstance(config, heads.Heads) else 0


def given_to_the_last_dense_layer(apply: Callable[[], tuple[Array, PyTree]]) -> tuple[Array, PyTree]:
    """Return what the classifier of a forward pass is given, and the pass's statistics; its logits are not used.

    Every network ends with a dense layer, whatever its name is, so no model needs a second forward function.
    """
    inputs: list[Array] = []

    def note(call: Callable[..., Any], args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        if isinstance(context.module, nn.Dense):
            inputs.append(args[0])
        return call(*args, **kwargs)

    with nn.intercept_methods(note):
        _, stats = apply()
    return inputs[-1], stats
