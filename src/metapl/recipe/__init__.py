"""Settings for `fit` and the estimator: what suits these pictures. Networks are in networks.py, heads in heads.py."""

from metapl.recipe.networks import BASELINE as BASELINE
from metapl.recipe.networks import LEARNING_RATE as LEARNING_RATE
from metapl.recipe.networks import NETWORKS as NETWORKS
from metapl.recipe.networks import Choice as Choice
from metapl.recipe.networks import augmentation as augmentation
from metapl.recipe.networks import base as base
from metapl.recipe.networks import model as model
from metapl.recipe.networks import mpl as mpl
from metapl.recipe.networks import shares as shares
from metapl.recipe.networks import supervised as supervised
