"""What a campaign prints: one line of JSON for each failure, and one for each scene."""

import json
from collections.abc import Sequence
from typing import Any


class FailedError(Exception):
    """A failure that is not an error of this process, such as a server's; its text says where it was."""


def finding(what: str, where: str, problem: str) -> str:
    """Print one failure, and return it."""
    print(json.dumps({"failure": what, "where": where, "problem": problem}, ensure_ascii=False), flush=True)
    return problem


def summary(campaign: str, what: str, number: int, failures: Sequence[str], **more: Any) -> dict[str, Any]:
    """Print and return the sum of one scene."""
    result = {"campaign": campaign, "what": what, "number": number, "failures": list(failures), **more}
    print(json.dumps(result | {"failures": len(failures)}), flush=True)
    return result
