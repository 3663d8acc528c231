"""Call a verb as the command line does."""

from metapl.cli import main as cli


def exit_code(*words: str) -> int:
    """Call `metapl` with these words, and return its exit code."""
    try:
        cli.main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
