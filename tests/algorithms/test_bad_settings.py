"""Settings of methods that cannot work end in one sentence, before anything is compiled."""

import numpy as np
import pytest

from metapl import config
from metapl.algorithms.enaet import EnAET
from metapl.algorithms.fixmatch import FixMatch
from metapl.algorithms.mpl import MPL
from metapl.algorithms.pcl import PCL
from metapl.algorithms.pirl import PIRL
from metapl.algorithms.remixmatch import ReMixMatch
from metapl.algorithms.simclr import SimCLR
from metapl.algorithms.supervised import Supervised
from metapl.data.sources.dataset import Dataset
from metapl.data.sources.digits import Digits
from metapl.models.mlp import MLP
from metapl.schema import ConfigError
from metapl.train.loop import train
from metapl.train.program import prepare


@pytest.mark.parametrize(
    ("stage", "complaint"),
    [
        ('method = {name = "flexmatch", threshold = 1.0}', "method.threshold takes a number below 1, got 1.0"),
        ('method = {name = "freematch", average = 1.0}', "method.average takes a number below 1, got 1.0"),
        ('method = {name = "mixmatch", views = 0}', "method.views takes a number of at least 1, got 0"),
        ('method = {name = "remixmatch", views = 0}', "method.views takes a number of at least 1, got 0"),
        ('method = {name = "enaet", views = 0}', "method.views takes a number of at least 1, got 0"),
        ('method = {name = "fixmatch", threshold = 1.0}', "method.threshold takes a number below 1, got 1.0"),
        ('method = {name = "adamatch", threshold = 1.0}', "method.threshold takes a number below 1, got 1.0"),
        ('method = {name = "simmatch", threshold = 1.0}', "method.threshold takes a number below 1, got 1.0"),
        (
            'method = {name = "uda", consistency.threshold = 1.0}',
            "method.consistency.threshold takes a number below 1, got 1.0",
        ),
        ('method = {name = "pirl", negatives = 0}', "method.negatives takes a number of at least 1, got 0"),
        ('method = {name = "pcl", clusters = [0]}', "clusters takes numbers of at least 2, got (0,)"),
        (
            'unlabeled_batch = 64\nmethod = {name = "moco", queue = 63}',
            "method.queue = 63 holds less than a batch; take at least unlabeled_batch = 64",
        ),
        (
            'unlabeled_batch = 64\nmethod = {name = "pcl", queue = 63}',
            "method.queue = 63 holds less than a batch; take at least unlabeled_batch = 64",
        ),
        ('unlabeled_batch = 1\nmethod.name = "simclr"', "unlabeled_batch = 1: simclr compares an example with others"),
        (
            'augmentation.strong = {name = "ctaugment", threshold = 1.0}',
            "augmentation.strong.threshold takes a number below 1, got 1.0",
        ),
        (
            'method = {name = "pseudo_labels", threshold = 1.0}',
            "method.threshold takes a number below 1, got 1.0",
        ),
        (
            'method = {name = "noisy_student", keep.threshold = 1.0}',
            "method.keep.threshold takes a number below 1, got 1.0",
        ),
        ('unlabeled_batch = 0\nmethod.name = "fixmatch"', "unlabeled_batch takes a number of at least 1, got 0"),
        (
            'method = {name = "enaet"}',
            "enaet with these settings needs pictures, and the source two_moons has none; choose another source",
        ),
        ('method = {name = "vat", radius = 0.0}', "method.radius takes a number above 0, got 0.0"),
        ('method = {name = "temporal_ensembling", momentum = 1.0}', "method.momentum takes a number below 1, got 1.0"),
        (
            'unlabeled_batch = 1\nmethod.name = "softmatch"',
            "unlabeled_batch = 1: softmatch takes the variance of a batch",
        ),
        ('method = {name = "ict", optimizer.average_decay = 0.9}', "the teacher is the average; set decay instead"),
        ('method = {name = "mpl", own.name = "reduced_mpl"}', "own.name takes a method that trains one network"),
        ('unlabeled_batch = 1\nmethod = {name = "mpl", own.name = "softmatch"}', "unlabeled_batch = 1: softmatch"),
        (
            'method = {name = "mpl", own.name = "lga", mixup = 1.0}',
            "mixup: the teacher's own method is lga; set it in own",
        ),
        ('method = {name = "mpl", own = {name = "vat", optimizer.learning_rate = 1.0}}', "own.optimizer is not used"),
    ],
)
def test_one_sentence(stage, complaint):
    with pytest.raises(ConfigError) as error:
        config.parse(f"[[stages]]\n{stage}\n", "test")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


PICTURES, FEATURES = (np.uint8, (8, 8, 1)), (np.float16, (3, 5))  # of features: the eval view and one pair


def examples(kind, unlabeled):
    dtype, shape = kind
    labeled, labels = np.zeros((4, *shape), dtype), np.arange(4, dtype=np.int32) % 2
    return Dataset(labeled, labels, np.zeros((unlabeled, *shape), dtype), labeled, labels, ("a", "b"))


@pytest.mark.parametrize(
    ("method", "kind", "unlabeled", "complaint"),
    [
        (PCL((2, 11), queue=64), PICTURES, 10, "clusters = (2, 11): there are only 10 unlabelled examples"),
        (PIRL(enlarge=True), FEATURES, 10, "pirl with these settings needs pictures, and these data are features"),
        (PIRL(enlarge=True), (np.uint8, (8, 2, 1)), 10, "pirl cuts a picture into 3 × 3 patches, and these have 8 × 2"),
        (EnAET(), FEATURES, 10, "enaet with these settings needs pictures, and these data are features"),
        (Supervised(cutmix=1.0), FEATURES, 10, "supervised with these settings needs pictures"),
        (ReMixMatch(), (np.uint8, (2, 3, 1)), 10, "remixmatch rotates pictures, and these are 2 × 3, not square"),
        (MPL(own=ReMixMatch()), (np.uint8, (2, 3, 1)), 10, "these are 2 × 3, not square: set rotation_weight to 0"),
        (FixMatch(), PICTURES, 0, "fixmatch learns from unlabelled examples, and these data have none"),
        (SimCLR(), (np.float32, (5,)), 10, "simclr compares two views of each example, and these data have one"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_one_sentence_about_data_that_do_not_fit(method, kind, unlabeled, complaint):
    settings = config.Config(data=Digits(), stages=(config.Stage(method), config.Stage()))
    with pytest.raises(ConfigError) as error:
        prepare(settings, [examples(kind, unlabeled)])
    assert str(error.value).startswith("stages.0.method: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", [PCL((2, 10)), PIRL(enlarge=True), EnAET(), ReMixMatch()], ids=lambda it: it.name)
def test_the_smallest_data_that_fit_are_taken(method):
    settings = config.Config(data=Digits(), stages=(config.Stage(method), config.Stage()))
    prepare(settings, [examples((np.uint8, (3, 3, 1)), 10)])


def test_supervised_learning_needs_no_unlabelled_examples():
    settings = config.Config(data=Digits(), model=MLP(hidden=(4,)), stages=(config.Stage(steps=2),))
    assert train(settings, [0], [examples(PICTURES, 0)]).weights.params
