"""`metapl` with a clock that somebody sets again and again: to tomorrow, to 1990, to 2037, and back.

python -m faults.jumping_clock VERB FLAGS

Only what Python's `time` module tells jumps. The system's clock, which all processes share, is left alone.
"""

import itertools
import sys
import time

READINGS = 3  # between two jumps
YEAR_S = 365.0 * 86400
JUMPS_S = (0.0, 86400.0, -36 * YEAR_S, 11 * YEAR_S)


def main() -> None:
    """Replace the clock, then run `metapl` with the given words."""
    readings, now = itertools.count(), time.time

    def jumping() -> float:
        return now() + JUMPS_S[next(readings) // READINGS % len(JUMPS_S)]

    time.time, time.time_ns = jumping, lambda: int(1e9 * jumping())
    from metapl.cli import main as cli  # after the change: some modules import the function itself

    cli.main(sys.argv[1:])


if __name__ == "__main__":
    main()
