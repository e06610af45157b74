"""Every command explains itself, and shows how it is typed; what it shows, it would also take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from maia.cli.main import commands_for
from maia.cli.profile_option import offer_profiles
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
        brokers=("127.0.0.1:7400",), types=(Path("types"),)
    ),
)  # fmt: skip
"""What an example means by `--as`."""
REMARK = re.compile(r"\s+\([^']*\)$")


def below(command: object, *words: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield a command, and all that are below it, with the words that they are called by."""
    yield words, command
    for name, one in getattr(command, "commands", {}).items():
        yield from below(one, *words, name)


WHOLE = get_command(commands_for([]))
offer_profiles(WHOLE, [])
TREE = list(below(WHOLE))
LEAVES = [(words, command) for words, command in TREE if not hasattr(command, "commands")]
BY_WORDS = [pytest.param(words, command, id=" ".join(words)) for words, command in LEAVES]


def examples(command) -> list[str]:
    """Return what is to be typed: examples stand between semicolons, each with a remark or without."""
    kind, _, text = (command.epilog or "").partition(": ")
    assert kind in {"Example", "Examples"}
    return [REMARK.sub("", one) for one in text.split("; ")]


def test_the_whole_tree_is_checked() -> None:
    assert {"login", "subscribe", "domain policy check", "pipeline run"} <= {" ".join(w) for w, _ in LEAVES}


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
