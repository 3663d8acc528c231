"""Durations as people write them."""

import pytest

from metapl.fit.duration import seconds
from metapl.schema import ConfigError


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("0.5h", 1800)])
def test_times_are_read(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "30", "m", "30x", "-5m", "1s", "5m x", "400d", "9" * 400 + "h"])
def test_other_texts_are_refused(text):
    with pytest.raises(ConfigError, match="--budget takes"):
        seconds(text)
