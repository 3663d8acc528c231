"""An optimizer's settings."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from metapl.schema import ConfigError


@dataclass(frozen=True)
class Optimizer:
    """How a network's gradients become its update. The default is the paper's TwoMoon: plain SGD."""

    learning_rate: Annotated[float, Gt(0)] = 0.1
    """Step size, after warm-up and before decay."""
    schedule: Literal["constant", "cosine", "exponential"] = "constant"
    """How the learning rate changes: not at all, as a cosine to 0 at the stage's last step, or as a staircase."""
    warmup_steps: Annotated[int, Ge(0)] = 0
    """Steps in which the learning rate rises linearly from 0."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the last update that is kept."""
    nesterov: bool = False
    """Look ahead along the momentum (the paper's choice for its ResNets, with 0.9)."""
    weight_decay: Annotated[float, Ge(0)] = 0.0
    """L2 penalty, added to the gradient of every weight that is not a bias or a scale; rule `adamw`: to the update."""
    clip_norm: Annotated[float, Ge(0)] = 0.0
    """Largest norm of the gradient; 0: no limit."""
    rule: Literal["sgd", "rmsprop", "lars", "adamw"] = "sgd"
    """What scales the gradient: sgd: nothing; rmsprop: its own recent size (the paper's EfficientNets); lars: the size
    of each layer's weights; adamw: its own recent size, with `momentum` as β₁ (usual for transformers)."""
    decay_norm_and_bias: bool = False
    """Apply weight decay to biases and batch-norm scales, too."""
    decay_factor: Annotated[float, Gt(0), Le(1)] = 0.97
    """Schedule `exponential`: factor of the learning rate at each fall (EfficientNet: 0.97)."""
    decay_every_steps: Annotated[int, Ge(0)] = 0
    """Schedule `exponential`: steps between two falls, counted from the stage's start (EfficientNet: 2.4 epochs)."""
    rms_decay: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Rule `rmsprop`: share of the mean square that each step keeps."""
    rms_epsilon: Annotated[float, Gt(0)] = 0.001
    """Rule `rmsprop`: added to the mean square, inside the square root as in TensorFlow."""
    trust_coefficient: Annotated[float, Gt(0)] = 0.001
    """Rule `lars`: length of a layer's update, as a share of its weights' length, at a learning rate of 1."""
    adam_decay: Annotated[float, Ge(0), Lt(1)] = 0.999
    """Rule `adamw`: share of the mean square that each step keeps (β₂)."""
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    """Factor of the learning rate from each layer to the one before it, for pretrained networks (ViT: 0.65 to 0.75).
    The head has the full rate; before it come the stages (in a ViT the blocks), and the stem is the first layer."""
    frozen_layers: Annotated[int, Ge(0)] = 0
    """Keep the weights of the first so many layers as they are: 1 is the stem, 2 the stem and the first stage (in a
    ViT the first block), and so on. Running statistics of batch norm still move."""
    sam: Annotated[float, Ge(0)] = 0.0
    """ρ of SAM (Foret et al., 2021): take the gradient at the worst point at this distance, which finds flat minima;
    twice the work. 0: take it where the weights are. The authors: 0.05."""
    only: Literal["all", "classifier", "classifier_and_norms"] = "all"
    """Which weights to train: all; the classifier (a linear probe); or the classifier and the scales and biases of all
    norms (FixRes). Running statistics of batch norm always move."""
    average_decay: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Evaluate, and give to the next stage, a moving average of the weights that keeps this share at each step; 0: the
    weights themselves."""

    def check(self) -> None:
        """Check fields against each other."""
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        if self.nesterov and self.rule == "rmsprop":
            raise ValueError(
                "nesterov cannot be combined with rule 'rmsprop', whose momentum is TensorFlow's; set nesterov to false"
            )
        if self.rule == "adamw" and (self.nesterov or not self.momentum):
            raise ValueError("rule 'adamw' needs a momentum above 0 (usually 0.9), and no nesterov")
        if self.schedule == "exponential" and not self.decay_every_steps:
            raise ValueError("schedule 'exponential' needs decay_every_steps above 0")

    def check_steps(self, total_steps: int) -> None:
        """Raise ConfigError if the stage ends before the warm-up does."""
        if self.schedule == "cosine" and self.warmup_steps >= total_steps:
            raise ConfigError(f"warmup_steps ({self.warmup_steps}) must be fewer than the stage's {total_steps} steps")
