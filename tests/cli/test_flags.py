"""A mistake in the flags becomes one sentence, however tyro frames it."""

import pytest

from metapl.cli.demo import demo
from metapl.cli.flags import sentence
from metapl.schema import ConfigError

LINES = """╭─ Unrecognized options ─────────────────╮
│ Unrecognized options: --dataset, 3     │
│ ────────────────────────────────────── │
│ Perhaps you meant:                     │
│     --datasets INT                     │
│ ────────────────────────────────────── │
│ For full helptext, run metapl --help   │
╰────────────────────────────────────────╯
"""
LETTERS = """ Unrecognized options
 ------------------------------------
  Unrecognized options: --dataset, 3
  ------------------------------------
  Perhaps you meant:
      --datasets INT
          (default: 3)
  ------------------------------------
  For full helptext, run metapl --help

"""


DOUBLE = LINES.translate(str.maketrans("╭╮╰╯│─", "╔╗╚╝║═"))  # as a later tyro may draw it


COLOURED = "\n".join(f"\x1b[31m{line}\x1b[0m" for line in LINES.splitlines())
NO_TITLE = "\n".join(LINES.splitlines()[1:])
ARGPARSE = """usage: metapl demo [-h] [--datasets INT]
metapl demo: error: Unrecognized options: --dataset, 3
----------------------------
Perhaps you meant one of:
  --datasets INT
"""


@pytest.mark.parametrize("box", [LINES, LETTERS, DOUBLE, COLOURED, NO_TITLE, ARGPARSE])
def test_the_mistake_and_the_nearest_flag(box):
    assert sentence(box) == "Unrecognized options: --dataset, 3; did you mean --datasets?"


def test_a_mistake_over_several_lines_is_joined():
    box = "╭─ Invalid choice ─╮\n│ invalid choice 'x' for │\n│ argument '--kind'.     │\n╰──────────────────╯\n"
    assert sentence(box) == "invalid choice 'x' for argument '--kind'"


def test_nothing_said_is_said_to_be_nothing():
    assert sentence("") == "the flags cannot be read"


@pytest.mark.parametrize(
    "box", ["a plain sentence.\n", "\na plain sentence", "│ a plain sentence. │", "a\nplain sentence"]
)
def test_whatever_is_printed_becomes_one_line(box):
    assert sentence(box) == "a plain sentence"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--dataset", "3"], r"--dataset.*; did you mean --datasets\? \(metapl demo --help lists the flags\)"),
        (["--datasets", "many"], "^--datasets takes a whole number, got 'many' "),
        (["--datasets"], "--datasets"),
        (["moons"], "moons"),
    ],
)
@pytest.mark.parametrize("width", ["40", "200"])
def test_the_installed_tyro_is_understood(flags, says, width, monkeypatch):
    """If this fails with a new tyro, look at what it prints, and teach `sentence` to read that."""
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(ConfigError, match=says) as error:
        demo(flags)
    assert "\n" not in str(error.value)
    assert not any("\u2500" <= character <= "\u257f" for character in str(error.value))
