"""What happens to a warning: a sentence on the screen, a line in the run's folder, or the end of the run."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from metapl.guards.keeper import Alarm, Keeper, StoppedError
from metapl.types import Listen, Numbers


def guarding(
    keeper: Keeper, tell: Callable[[str], None], log: Path | None = None, last_good: Callable[[int], str] = lambda _: ""
) -> Listen:
    """Return a listener that shows every report to the guards, prints warnings, and stops the run at level `stop`.

    `last_good` returns a sentence about the newest checkpoint of at most so many steps.
    """

    def listen(stage: int, step: int, numbers: Numbers) -> None:
        for alarm in keeper.read_report(stage, step, numbers):
            if log is not None:
                note(alarm, log)
            off = f"--guards.{alarm.guard} off silences this"
            if alarm.level == "stop":
                raise StoppedError(" ".join(filter(None, [f"{alarm.text} ({off}).", last_good(alarm.good_steps)])))
            tell(f"warning at step {step:,}: {alarm.text} ({off})")

    return listen


def note(alarm: Alarm, log: Path) -> None:
    """Append an alarm to the log, unless an earlier session has; a log that cannot be written does not stop the run."""
    line = json.dumps(alarm._asdict(), ensure_ascii=False)
    with suppress(OSError):
        known = log.read_text("utf-8").splitlines() if log.is_file() else []
        if line not in known:
            with log.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
