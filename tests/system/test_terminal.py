"""Sentences reach the terminal as they are."""

import io

from rich.console import Console

from metapl.system.terminal import say, sayer


def test_brackets_and_long_lines_are_printed_as_they_are() -> None:
    stream = io.StringIO()
    text = "[red]photos[1].jpg[/red] " + "long " * 40
    say(Console(file=stream, width=40, force_terminal=True), text)
    assert stream.getvalue() == text + "\n"


def test_a_sayer_prints_to_its_console_and_takes_a_style() -> None:
    stream = io.StringIO()
    tell = sayer(Console(file=stream, force_terminal=True, color_system="standard"))
    tell("plain")
    tell("loud", style="red")
    assert stream.getvalue() == "plain\n\x1b[31mloud\x1b[0m\n"
