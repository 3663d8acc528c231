"""A mistake in the flags becomes one sentence, however tyro frames it."""

import pytest

from metapl.cli.flags import sentence

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


@pytest.mark.parametrize("box", [LINES, LETTERS, DOUBLE])
def test_the_mistake_and_the_nearest_flag(box):
    assert sentence(box) == "Unrecognized options: --dataset, 3; did you mean --datasets?"


def test_a_mistake_over_several_lines_is_joined():
    box = "╭─ Invalid choice ─╮\n│ invalid choice 'x' for │\n│ argument '--kind'.     │\n╰──────────────────╯\n"
    assert sentence(box) == "invalid choice 'x' for argument '--kind'"


def test_nothing_said_is_said_to_be_nothing():
    assert sentence("") == "the flags cannot be read"
