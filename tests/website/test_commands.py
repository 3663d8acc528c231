"""Every command in README and docs is valid: its verb exists, and its flags can be read. Nothing is run."""

import re
from collections.abc import Callable

import pytest
import tyro

from metapl.cli import data
from metapl.cli import main as cli

from .pages import Command, commands

NO_VERB = ("--help", "--version", "VERB")
SETTINGS = 'preset = "digits_mpl_small"\n'  # the content of my.toml and similar files in these tests


class Read(Exception):  # noqa: N818 - not an error: the flags were read, and no more is needed
    pass


@pytest.fixture
def give(monkeypatch, tmp_path, capsys):
    """Read a command's flags; return the error if it is refused."""
    own = tyro.cli

    def read(*args, **settings):
        own(*args, **settings)
        raise Read

    monkeypatch.setattr(tyro, "cli", read)
    monkeypatch.chdir(tmp_path)

    def give(words: list[str]) -> str:
        words = [word for word in words if word != "--help" or len(words) == 2]
        for word in words:
            if word.endswith(".toml"):
                (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / word).write_text(SETTINGS)
        try:
            cli.main(words)
        except Read:
            return ""
        except SystemExit as stop:
            return capsys.readouterr().err if stop.code else ""
        return ""

    return give


FOUND = commands()


def test_the_pages_have_commands():
    verbs = {command.words[0] for command in FOUND if command.whole}
    assert set(cli.VERBS) <= verbs, "a verb without an example"
    assert len(FOUND) > 80


@pytest.mark.parametrize("page", sorted({command.page for command in FOUND}))
def test_the_commands_of_a_page_are_valid(page, give):
    wrong = []
    for command in FOUND:
        if command.page == page and command.words[0] not in NO_VERB:
            said = give(command.words) if command.whole else _mentioned(command, give)
            wrong += [f"{command}\n    {said}"] if said else []
    assert not wrong, "\n".join(wrong)


def _mentioned(command: Command, give: Callable[[list[str]], str]) -> str:
    """Words in a sentence: the verb must exist, and flags, if there are any, must be valid."""
    verb, *rest = command.words
    if verb not in cli.VERBS or (verb == "data" and rest and rest[0] not in data.VERBS):
        return "there is no such verb"
    return give(command.words) if any(word.startswith("--") for word in rest) else ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["train", "digits_mpl_small", "--sedes", "3"], "--sedes"),
        (["fitt", "my_pictures"], "there is no verb 'fitt'"),
        (["train", "digits_mpl_tiny"], "neither a preset nor a TOML file"),
        (["data", "check", "digits", "--near", "x"], "--near takes a whole number"),
    ],
)
def test_a_wrong_command_is_found(line, said, give):
    assert said in re.sub(r"\s+", " ", give(line))
