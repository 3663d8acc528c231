"""What more labels, more time or a faster machine would probably bring: sentences for the verdict."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from metapl.fit.clock import in_words
from metapl.fit.rung import TITLES

SMALL = "own_network"  # the rung whose steps fill the time


def sentences(verdict: Mapping[str, Any], curve: Mapping[str, Any] | None, unused: int) -> list[str]:
    """Advice, the most useful first; `unused` unlabelled pictures were not encoded, because time was short."""
    said = []
    if curve and curve["gain"] is not None:
        said.append(
            f"{curve['more']} more labels would add about {100 * curve['gain']:.1f} points to logistic regression, if "
            "they are labelled at random and its curve over the number of labels continues as before."
        )
    if doubtful := verdict["label_errors"]:
        said.append(
            f"{len(doubtful):,} of {verdict['labels']:,} labels look doubtful: look at the first ones of "
            "label_errors.csv, and correct those that are wrong."
        )
    said += _more_time(verdict["left_out"], unused, verdict["ladder"], bool(verdict["not_tried"]))
    if verdict["not_tried"]:
        said.append(f"With a GPU, or more memory, this could be tried: {_titles(verdict['not_tried'])}.")
    return said


def _more_time(
    left_out: Mapping[str, str], unused: int, ladder: Sequence[Mapping[str, Any]], more_on_a_gpu: bool
) -> list[str]:
    if not left_out and not unused and any(row.get("name") == SMALL for row in ladder):
        return [
            "Nothing was left out for lack of time. A new fit in another folder with a larger --budget would train the "
            "small network longer. More labels, or a pretrained network (pip install 'metapl[pretrained]', or "
            "--init-from), would probably help more."
        ]
    if not left_out and not unused:
        little = "An hour more would" if more_on_a_gpu else "An hour more, or a GPU, would"
        return [
            f"{little} change little: nothing was left out for lack of time, and the slowest rung took "
            f"{in_words(max(row['seconds'] for row in ladder))}. More labels, or a better pretrained network "
            "(--init-from), would probably help more."
        ]
    said = []
    if unused:
        said.append(f"With more time, {unused:,} more unlabelled pictures could be used.")
    if left_out:
        said.append(
            f"With an hour more, or on a GPU, what was left out could be tried: {_titles(left_out)}. The same command "
            "with a larger --budget continues."
        )
    return said


def _titles(names: Iterable[str]) -> str:
    return ", ".join(TITLES.get(name, name) for name in names)
