"""What a story claims is computed: a lost, doubled or wider delivery is found, and a table that differs."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from maia.cli.demo import StoryName
from maia.demo import report
from maia.demo.report import Showing, story_named
from maia.demo.spark import LogTable
from maia.demo.stage import PublishedEvent, ReaderInbox, Stage
from maia.demo.world import StoryWorld, is_from_1970
from maia.events import Instant
from maia.ledger.records import Disclosure
from maia.organisation import Organisation
from maia.roles import parse_policy
from maia.testing import postgres_server

NOW = Instant.parse("2026-11-15T12:00:00Z")
QUIET = Showing(0.0, quiet=True)
TABLE = LogTable("carer", 5, ("time",), True, True, False, None, "prescription-audit", 3, True)
SEEN = {"stock": "MAI", "seller": None}
CAROL = next(one for one in story_named("ticker").readers if one.name == "Carol")


class Frozen(Stage):
    """A stage on which Carol has to see one trade, and nothing runs."""

    def __init__(self, *received: dict[str, object]) -> None:
        super().__init__(StoryWorld(story_named("ticker"), Path()), QUIET, None)
        self.inboxes = {"Carol": ReaderInbox(CAROL, None, list(received))}
        self.published = [PublishedEvent("floor", "StockTicker", {}, {}, {"Carol": SEEN}, "true")]
        kind = SimpleNamespace(type_id=b"ticker", attributes=[SimpleNamespace(uid="3", name="stock")])
        carol = SimpleNamespace(principal=SimpleNamespace(key=b"carol"), type=lambda _name: kind)
        carol.held = lambda: [SimpleNamespace(id=b"held")]
        self.__dict__["members"] = {"carol": carol}


def test_a_difference_between_network_and_kernel_is_a_failure() -> None:
    assert list(Frozen(SEEN).differences()) == []
    assert list(Frozen().differences()) == ["Carol missed 1 events, against the kernel"]
    assert list(Frozen(SEEN, SEEN).differences()) == ["Carol got 1 events, against the kernel"]
    assert len(list(Frozen({**SEEN, "seller": "Brook"}).differences())) == 2


def test_a_subscription_that_ends_without_a_reason_in_the_story_is_a_failure() -> None:
    stage = Frozen(SEEN)
    stage.inboxes["Carol"].ended = "POLICY-STALE"
    assert list(stage.differences()) == ["the subscription of Carol has ended: POLICY-STALE"]
    stage.lost.add("Carol")
    assert list(stage.differences()) == []


def told(*, rows: int = 1, attributes: tuple[str, ...] = ("3",), certificate: bytes = b"held") -> list[str]:
    """Return what is found when Carol received the stock of one trade, and the ledgers say this."""
    none = b""
    disclosure = Disclosure(
        NOW, none, b"carol", b"ticker", none, none, (certificate,), none, none, 1, (0, rows - 1), attributes
    )  # fmt: skip
    return list(Frozen(SEEN).unexplained([disclosure]))


def test_a_delivery_that_no_ledger_explains_is_a_failure() -> None:
    assert told() == []
    assert told(rows=2) == ["the ledgers name 2 events for Carol, who received 1"]
    assert told(attributes=("4",)) == ["Carol saw attributes that no ledger names: stock"]
    assert told(certificate=b"another") == ["a ledger names a certificate that Carol does not hold"]


def test_an_attempt_that_succeeds_is_a_failure_and_a_refusal_is_noted_by_its_code() -> None:
    stage = Frozen()
    stage.attempt("open", lambda: None)
    stage.attempt("a command", stage.maia, "key show there-is-none.pub")
    assert stage.refused == {"open": None, "a command": "INPUT-FILE"}
    assert stage.broken == ["open: nothing stopped it"]


@pytest.mark.parametrize(
    ("changes", "claims"),
    [
        ({}, 0),
        ({"is_same": False}, 1),
        ({"is_as_received": False}, 1),
        ({"is_as_received": False, "has_lost_a_right": True}, 0),
        ({"has_lost_a_right": True}, 1),
        ({"results_same": False}, 1),
        ({"results": 0}, 1),
    ],
)
def test_a_table_that_shows_more_or_less_is_a_failure(changes: dict[str, object], claims: int) -> None:
    """A44: a reader that has lost a right and finds all that it received, or one that finds less."""
    assert len(list(replace(TABLE, **changes).broken_claims())) == claims


@pytest.mark.parametrize("name", [one.value for one in StoryName])
def test_the_commands_of_every_story_set_it_up_and_its_policies_are_policies(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server runs yet: organisations, types, grants and members are folders."""
    monkeypatch.chdir(tmp_path)
    world = StoryWorld(story := story_named(name), tmp_path)
    world.type_all(story.setup)
    members = {one.stem for one in tmp_path.glob("*/*.maia")}
    assert {one.profile for one in story.readers} <= members
    for by, of, event, *_ in story.probes(1):
        assert story.is_probe(event)
        assert by in members
        assert of
    for organisation, policy in story.policies.items():
        ours = Organisation(organisation)
        names = [one.definition.name.name for one in ours.definitions()]
        types = {one: ours.event_type(one) for one in names if names.count(one) == 1}
        assert parse_policy(policy, origin=name, domain=ours.principal, types=types).roles


def test_probes_are_events_of_1970() -> None:
    assert is_from_1970({"time": Instant(1), "stock": "MAI"})
    assert not is_from_1970({"time": NOW, "stock": None})


def test_the_page_names_every_story() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    played = [line.removeprefix("maia demo").strip() for line in commands.splitlines()]
    assert [one or "numberplate" for one in played] == [story.value for story in StoryName]
    for story in StoryName:
        assert f"| `{story.value}`" in page


def test_without_postgresql_a_newcomer_reads_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgres_server.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(postgres_server.PostgresNotStarted, match="install version 15 or later"):
        postgres_server.postgres_binaries()
    names = ("city", "ticker", "homecare")
    playable = {name: report._playable(story_named(name), QUIET) for name in names}
    assert {name for name, story in playable.items() if story.database is not None} == {"homecare"}
    assert [one.name for one in playable["ticker"].readers] == ["Alice", "Bob", "dealing desk", "Carol"]
