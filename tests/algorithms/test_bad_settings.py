"""Settings of methods that cannot work end in one sentence, before anything is compiled."""

import pytest

from metapl import config
from metapl.schema import ConfigError


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
