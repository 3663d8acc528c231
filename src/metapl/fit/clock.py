"""How much of its budget a fit has used, over all its sessions."""

import json
import time
from pathlib import Path

from metapl.fit.folder import REQUEST, explaining_damage
from metapl.fit.label_file import FILE as LABELS
from metapl.system.disk import write_atomically

SESSIONS = "sessions.json"
EXACT_BELOW_S = 300.0  # longer durations are rounded to minutes
PLAUSIBLE = 2.0  # budgets that a session may seem to have lasted
OF_OTHERS = ("lock", REQUEST, LABELS)  # files that may be written between two sessions


class Clock:
    """The time of a fit."""

    def __init__(self, budget_s: float, before_s: float = 0.0) -> None:
        self.budget_s, self._before_s, self._began = budget_s, before_s, time.monotonic()

    @property
    def spent_s(self) -> float:
        """Seconds that all sessions have used so far."""
        return self._before_s + time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Seconds that are left of the budget; negative if it is used up."""
        return self.budget_s - self.spent_s

    def __str__(self) -> str:
        return f"{in_words(max(0.0, self.left_s))} left of {in_words(self.budget_s)}"


def begin_session(out: Path, budget_s: float, already_s: float = 0.0) -> Clock:
    """Note that a session begins, which began `already_s` seconds ago, and sum up those before it.

    A session that was killed could not note its end: the folder's newest file was written then. If it seems to have
    lasted far longer than its budget, the clock was set or the machine slept meanwhile, and it does not count.
    """
    path = out / SESSIONS
    with explaining_damage(path):
        sessions = list(json.loads(path.read_text("utf-8"))) if path.is_file() else []
        if sessions:
            lasted_s = _newest(out) - sessions[-1]["began"]
            sessions[-1]["seconds"] = lasted_s if 0.0 <= lasted_s <= PLAUSIBLE * budget_s else 0.0
        before_s = sum(session["seconds"] for session in sessions) + already_s
    sessions.append({"began": time.time() - already_s, "seconds": 0.0})
    write_atomically(path, (json.dumps(sessions, indent=2) + "\n").encode())
    return Clock(budget_s, before_s)


def _newest(out: Path) -> float:
    """When a session wrote a file below the folder last."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in OF_OTHERS)
    return max((path.stat().st_mtime for path in files), default=0.0)


def in_words(seconds: float) -> str:
    """A duration for people: 45 s, 2 min 30 s, 12 min, 1 h 5 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < EXACT_BELOW_S:
        whole, rest = divmod(round(seconds), 60)
        return f"{whole} min {rest} s" if rest else f"{whole} min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
