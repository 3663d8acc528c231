"""What is served: a trained network, one picture at a time, and what is known of it."""

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from metapl.evaluate.predictor import Predictor
from metapl.runs.run_folder import RESULT
from metapl.schema import ConfigError
from metapl.web.serve.examples import Examples

NEAREST = 6  # labelled examples that are shown beside an answer


class Served:
    """Answers for the server's threads; the network is asked by one of them at a time."""

    def __init__(self, predictor: Predictor, facts: dict[str, Any], examples: Examples | None, why_none: str) -> None:
        """`why_none` is a sentence for the user, if there are no examples."""
        self._predictor, self._facts, self._examples, self._why_none = predictor, facts, examples, why_none
        self._one_at_a_time = threading.Lock()

    def warm_up(self) -> None:
        """Compile what a picture needs, so that the first one does not wait; find out now if the network is no good."""
        nothing = np.zeros((1, *self._predictor.example.shape), np.uint8)
        if not np.isfinite(self._predictor.probabilities(nothing)).all():
            raise ConfigError("the run's network answers with numbers that are not finite: it did not learn")
        if self._examples:
            self._predictor.features(nothing)

    def predict(self, picture: bytes) -> dict[str, Any]:
        """Classes by probability, and the nearest labelled examples."""
        with self._one_at_a_time:  # decoding, too: a large picture takes much memory, and only for a moment
            began = time.monotonic()
            one = self._predictor.read_bytes(picture, "the picture")[None]
            probabilities = self._predictor.probabilities(one)[0]
            near = self._examples.nearest(self._predictor.features(one)[0], NEAREST) if self._examples else []
        names = self._predictor.class_names
        order = np.argsort(-probabilities, kind="stable")
        return {
            "classes": [{"name": names[i], "probability": float(probabilities[i])} for i in order],
            "examples": [
                {
                    "class": names[example.label],
                    "similarity": example.similarity,
                    "picture": f"/api/examples/{example.number}.png",
                }
                for example in near
            ],
            "milliseconds": round(1000 * (time.monotonic() - began), 1),
        }

    def model(self) -> dict[str, Any]:
        """What the network is and how good it was."""
        height, width, channels = self._predictor.example.shape
        return self._facts | {
            "classes": list(self._predictor.class_names),
            "picture": {"height": height, "width": width, "channels": channels},
            "temperature": self._predictor.temperature,
            "examples": len(self._examples) if self._examples else 0,
            "why_no_examples": None if self._examples else self._why_none,
        }

    def example(self, index: int) -> bytes | None:
        """A labelled example as PNG."""
        return self._examples.png(index) if self._examples else None


def facts(name: str, run: Path, predictor: Predictor) -> dict[str, Any]:
    """What the run's files say of the network."""
    config = predictor.config
    return {
        "run": name,
        "method": ", then ".join(stage.method.name for stage in config.stages),
        "network": config.stage_models[-1].name,
        "accuracy": accuracy(run),
    }


def accuracy(run: Path) -> float | None:
    """The run's accuracy on its test pictures; None where it has none, or is not finished."""
    try:
        seeds = json.loads((run / RESULT).read_text("utf-8"))["final"]["accuracy"]["seeds"]
        found = float(next(iter(seeds.values())))  # of the seed whose weights are served: the first one
    except (OSError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None
    return found if math.isfinite(found) else None
