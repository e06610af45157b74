"""A command that waits for somebody else says so, again and again, and is silent when it is quick."""

from __future__ import annotations

import pytest

from maia.cli.output import use_json
from maia.cli.progress import patience
from maia.testing import wait_until


@pytest.fixture(autouse=True)
def for_people() -> None:
    """Whatever a command before, in this process, was asked for."""
    use_json(False)


def test_what_takes_long_says_what_it_is_doing(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def has_spoken_twice() -> bool:
        said.append(capsys.readouterr().err)
        return "".join(said).count("waiting for an answer of `s3://city-logs/north`, for ") >= 2

    with patience("waiting for an answer of `s3://city-logs/north`", every_s=0.01):
        wait_until(has_spoken_twice)


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with patience("waiting for an answer of `s3://city-logs/north`"):
        pass
    assert capsys.readouterr().err == ""


def test_what_fails_while_it_waits_fails_as_it_would(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), patience("waiting"):
        raise ValueError("no")
