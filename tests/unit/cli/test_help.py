"""Every command explains itself, and shows how it is typed; what it shows, it would also take."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from maia.cli.help import examples_of
from maia.cli.main import commands_for
from maia.cli.table import COMMANDS, LINES
from maia.profile import Profile
from maia.profile.profile import ProfileSettings

SAID_ONCE = {
    "MAIA_SERVER": "127.0.0.1:7600",
    "MAIA_DOMAIN": "met.pub",
    "MAIA_KEY": "smith.key",
}
"""What a person who calls a domain all day says once, in the environment; examples leave it out."""
PROFILE = Profile(
    "lab",
    Path("lab.maia"),
    ProfileSettings(
        key=Path("lab.key"), credentials=(Path("certs"),), network="hospital", coordinator="hospital.pub",
        brokers=("127.0.0.1:7400",), types=(Path("types"),), wallet=Path("lab-wallet"),
    ),
)  # fmt: skip
"""What an example means by `--as`."""


def below(command: object, *words: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield a command, and all that are below it, with the words that they are called by."""
    yield words, command
    for name, one in getattr(command, "commands", {}).items():
        yield from below(one, *words, name)


WHOLE = get_command(commands_for([]))
TREE = list(below(WHOLE))
LEAVES = [(words, command) for words, command in TREE if not hasattr(command, "commands")]
BY_WORDS = [pytest.param(words, command, id=" ".join(words)) for words, command in LEAVES]


def examples(command) -> list[str]:
    """Return what is to be typed: examples stand between semicolons, each with a remark or without."""
    assert (command.epilog or "").startswith(("Example: ", "Examples: "))
    return [one for one, _ in examples_of(command.epilog)]


def test_the_whole_tree_is_checked() -> None:
    assert {"login", "subscribe", "domain policy check", "pipeline run"} <= {" ".join(w) for w, _ in LEAVES}


def test_every_command_is_in_the_table_with_a_line() -> None:
    assert {words[0] for words, _ in LEAVES} == set(COMMANDS)
    assert all(LINES.values())


def test_help_fits_a_terminal_and_its_examples_can_be_copied() -> None:
    """A line that ends with a backslash goes on in the next; what is joined again is what was written."""
    for words, command in TREE:
        with typer.Context(command, info_name=" ".join(("maia", *words)), terminal_width=80) as context:
            shown = command.get_help(context)
        assert [line for line in shown.splitlines() if len(line) > 80] == [], words
        joined = shown.replace(" \\\n      ", " ")
        assert [one for one, _ in examples_of(command.epilog or ": ") if one not in joined] == [], words


def test_one_word_means_one_thing() -> None:
    long = defaultdict(set)
    for words, command in LEAVES:
        for parameter in command.params:
            for short in (one for one in parameter.opts if re.fullmatch(r"-\w", one)):
                long[short].add(next(one for one in parameter.opts if one.startswith("--")))
            if "--credentials" in parameter.opts and words[0] not in {"cert", "ledger", "login"}:
                assert "-c" in parameter.opts or "--config" in all_options(command), words
    assert {short: names for short, names in long.items() if len(names) > 1} == {
        "-c": {"--credentials", "--config"},  # a server has a configuration, and a participant credentials
    }


def all_options(command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_everything_says_what_it_is_for() -> None:
    silent = [" ".join(words) for words, command in TREE if not command.help]
    silent += [
        f"{' '.join(words)}: {parameter.name}"
        for words, command in LEAVES
        for parameter in command.params
        if not parameter.help
    ]
    assert silent == []


def test_everything_answers_programs_too() -> None:
    options = {words: [name for one in command.params for name in one.opts] for words, command in LEAVES}
    assert [" ".join(words) for words, names in options.items() if "--json" not in names] == []


@pytest.mark.parametrize(("words", "command"), BY_WORDS)
def test_an_example_is_something_that_the_command_takes(words, command, monkeypatch) -> None:
    for name, value in SAID_ONCE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("maia.profile.find_profile", lambda _word: PROFILE)
    monkeypatch.setattr(Profile, "principal", lambda _self: "ed25519:" + "0" * 64)
    typed = [shlex.split(one) for one in examples(command)]
    whole = [one for one in typed if "…" not in one]  # the others go on as one before them does
    assert whole
    for one in whole:
        assert tuple(one[: len(words) + 1]) == ("maia", *words)
        command.make_context(" ".join(words), one[len(words) + 1 :])  # raises what a user would be shown
