"""What more labels, more time or a faster machine would probably bring: sentences for the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from metapl.fit.clock import in_words
from metapl.fit.rung import TITLES


def sentences(verdict: Mapping[str, Any], curve: Mapping[str, Any] | None, unused: int) -> list[str]:
    """Advice, the most useful first; `unused` unlabelled pictures were not encoded, because time was short."""
    said = []
    if curve and curve["gain"] is not None:
        said.append(
            f"{curve['more']} more labels would add about {100 * curve['gain']:.1f} points to logistic regression, if "
            "they are labelled at random and its curve over the number of labels continues as before."
        )
    return said + _more_time(verdict["left_out"], unused, verdict["ladder"])


def _more_time(left_out: Mapping[str, str], unused: int, ladder: Sequence[Mapping[str, Any]]) -> list[str]:
    if not left_out and not unused:
        return [
            "An hour more, or a GPU, would change little: every rung was climbed, and the slowest took "
            f"{in_words(max(row['seconds'] for row in ladder))}. More labels, or features of a better pretrained "
            "network (--init-from), are more promising."
        ]
    said = []
    if unused:
        said.append(f"With more time, {unused:,} more unlabelled pictures could be used.")
    if left_out:
        titles = ", ".join(TITLES.get(name, name) for name in left_out)
        said.append(
            f"With an hour more, or on a GPU, what was left out could be tried: {titles}. The same command with a "
            "larger --budget continues."
        )
    return said
