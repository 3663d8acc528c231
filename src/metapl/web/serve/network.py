"""The network that is served: its predictions for one picture at a time, and facts about it."""

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
from metapl.web.serve.examples import LabeledExamples

NEAREST = 6  # labelled examples that are shown beside a prediction


class ServedNetwork:
    """Predictions for the server's threads; only one of them uses the network at a time."""

    def __init__(
        self, predictor: Predictor, facts: dict[str, Any], examples: LabeledExamples | None, why_none: str
    ) -> None:
        """`why_none` tells the user why there are no examples, if there are none."""
        self._predictor, self._facts, self._examples, self._why_none = predictor, facts, examples, why_none
        self._in_use = threading.Lock()

    def warm_up(self) -> None:
        """Compile before the first picture comes, and refuse a network whose predictions are not finite."""
        black = np.zeros((1, *self._predictor.example.shape), np.uint8)
        if not np.isfinite(self._predictor.probabilities(black)).all():
            raise ConfigError("the run's network predicts numbers that are not finite: its training diverged")
        if self._examples:
            self._predictor.features(black)

    def predict(self, picture: bytes) -> dict[str, Any]:
        """Classes by probability, and the nearest labelled examples."""
        with self._in_use:  # also for decoding: a large picture takes much memory for a moment
            began = time.monotonic()
            pixels = self._predictor.read_bytes(picture, "the picture")[None]
            probabilities = self._predictor.probabilities(pixels)[0]
            near = self._examples.nearest(self._predictor.features(pixels)[0], NEAREST) if self._examples else []
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
        """Facts about the network: what it is, and its test accuracy."""
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
    """What the run's files say about the network."""
    config = predictor.config
    return {
        "run": name,
        "method": predictor.rung or ", then ".join(stage.method.name for stage in config.stages),
        "network": config.stage_models[-1].name,
        "accuracy": accuracy(run),
    }


def accuracy(run: Path) -> float | None:
    """The run's accuracy on its test pictures; None if it has no test pictures or is not finished."""
    try:
        seeds = json.loads((run / RESULT).read_text("utf-8"))["final"]["accuracy"]["seeds"]
        value = float(next(iter(seeds.values())))  # of the first seed, whose weights are served
    except (OSError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None
    return value if math.isfinite(value) else None
