"""What a scene claims is computed: a lost, doubled or wider delivery is found, and a table that differs."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from maia.cli.demo import Story
from maia.demo.scenes import SCENES
from maia.demo.scenes import screen as screens
from maia.demo.scenes.play import Inbox, Published, Stage
from maia.demo.scenes.scene import Wallet, assemble
from maia.demo.scenes.tables import LogTable
from maia.events import Instant
from maia.ledger.records import Disclosure
from maia.roles import parse_policy
from maia.testing import postgres_server

NOW = Instant.parse("2026-11-15T12:00:00Z")
TABLE = LogTable("carer", 5, True, True, None, "prescription-audit", 3, True)


def found(*received: dict[str, object]) -> list[str]:
    """Return what is found when Carol has to see one event, and receives these."""
    scene = SCENES["ticker"]()
    stage = Stage(SimpleNamespace(cast=SimpleNamespace(scene=scene)), print, None, None)
    stage.inboxes = {reader.name: Inbox() for reader in scene.readers}
    seen = {"stock": "MAI", "seller": None}
    stage.published = [Published("floor", "exchange.StockTicker", {}, {"Carol": seen})]
    stage.inboxes["Carol"].events = list(received)
    return list(stage.differences())


def test_a_difference_between_network_and_kernel_is_a_failure() -> None:
    right = {"stock": "MAI", "seller": None}
    assert found(right) == []
    assert found() == ["Carol missed 1 events, against the kernel"]
    assert found(right, right) == ["Carol got 1 events, against the kernel"]
    assert found({**right, "seller": "Brook"}) == [
        "Carol missed 1 events, against the kernel",
        "Carol got 1 events, against the kernel",
    ]


def told(
    *, rows: int = 1, attributes: tuple[str, ...] = ("3",), certificate: bytes | None = None
) -> list[str]:
    """Return what is found when Carol received the stock of one trade, and the ledgers say this."""
    cast = assemble(SCENES["ticker"](), b"a fixed seed", now=NOW)
    stage = Stage(SimpleNamespace(cast=cast), print, None, None)
    stage.inboxes = {reader.name: Inbox() for reader in cast.scene.readers}
    stage.wallets = {reader.name: Wallet((), ()) for reader in cast.scene.readers}
    stage.inboxes["Carol"].events = [{"stock": "MAI", "seller": None}]
    carol = cast.principal("Carol")
    held = cast.certificates["Carol"][0].id if certificate is None else certificate
    nothing = b""
    disclosure = Disclosure(
        NOW,
        nothing,
        carol.key,
        nothing,
        nothing,
        nothing,
        (held,),
        nothing,
        nothing,
        1,
        (0, rows - 1),
        attributes,
    )
    return list(stage.unexplained({carol: [disclosure]}))


def test_a_delivery_that_no_ledger_explains_is_a_failure() -> None:
    assert told() == []
    assert told(rows=2) == ["the ledgers name 2 events for Carol, who received 1"]
    assert told(attributes=("4",)) == ["Carol saw attributes that no ledger names: stock"]
    assert told(certificate=b"another") == ["a ledger names a certificate that Carol does not hold"]


@pytest.mark.parametrize(
    ("changes", "has_lost_a_right", "claims"),
    [
        ({}, False, 0),
        ({"is_same": False}, False, 1),
        ({"is_as_received": False}, False, 1),
        ({"is_as_received": False}, True, 0),
        ({}, True, 1),
        ({"results_same": False}, False, 1),
        ({"results": 0}, False, 1),
    ],
)
def test_a_table_that_shows_more_or_less_is_a_failure(changes, has_lost_a_right, claims) -> None:
    table = replace(TABLE, **changes)
    assert len(table.broken_claims(has_lost_a_right=has_lost_a_right)) == claims


@pytest.mark.parametrize("name", SCENES)
def test_every_policy_of_a_scene_is_one(name: str) -> None:
    cast = assemble(SCENES[name](), b"a fixed seed", now=NOW)
    for one in cast.scene.organisations:
        domain = cast.principal(one.name)
        types = {each.name.name: each for each in cast.types.values()}
        assert parse_policy(one.policy, origin=name, domain=domain, types=types).roles
    assert {one.organisation for one in cast.scene.readers} == {one.name for one in cast.scene.organisations}


def test_the_page_names_every_story() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    played = [line.removeprefix("maia demo").strip() for line in commands.splitlines()]
    assert [one or "numberplate" for one in played] == [story.value for story in Story]
    assert {story.value for story in Story} == {"numberplate", "consortium", "coalition", *SCENES}
    for story in Story:
        assert f"| `{story.value}`" in page


def test_without_postgresql_a_newcomer_reads_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgres_server.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(postgres_server.PostgresNotStarted, match="install version 15 or later"):
        postgres_server.postgres_binaries()
    screen = Console(record=True, quiet=True)
    playable = {name: screens.playable(scene(), screen) for name, scene in SCENES.items()}
    assert {name for name, scene in playable.items() if scene.database is not None} == {"homecare"}
    assert [one.name for one in playable["ticker"].readers] == ["Alice", "Bob", "dealing desk", "Carol"]
