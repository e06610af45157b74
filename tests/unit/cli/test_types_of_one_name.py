"""Two organisations have a type of one name: a third says which it means wherever a type goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.credentials.names import type_id
from maia.ledger.files import LedgerFiles
from maia.ledger.records import Audience, Begin, Disclosed, Ground, Shown, records_to_bytes
from maia.organisation import Organisation
from maia.wire.effects import Disclose
from support.processes import maia

PORTS = ("hamburg", "rotterdam")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Customs has been granted `ShipMovement` and the topics below `/berths` of two ports."""
    folder = tmp_path_factory.mktemp("ports")
    ports = {name: Organisation.create(folder / name) for name in PORTS}
    customs = Organisation.create(folder / "customs")
    rights = ("subscribe:ShipMovement", "subscribe:/berths")
    for name, port in ports.items():
        port.define("ShipMovement", "ship:string", f"{name}_berth:string")
        answer = maia("topic", "declare", "/berths", "--org", name, cwd=folder)
        assert answer.returncode == 0, answer.stderr
        if name != "hamburg":
            port.join(ports["hamburg"].invite(port.principal).save(folder / f"{name}.invite"))
        grant = port.grant(customs.principal, may=rights, delegable=True)
        customs.join(grant.save(folder / f"{name}.grant"), name=name, leave=True)
    return folder


def asked(home: Path, *words: str) -> str:
    answer = maia(*words, cwd=home)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def refused(home: Path, *words: str) -> str:
    answer = maia(*words, cwd=home)
    assert answer.returncode != 0, answer.stdout
    return answer.stderr


@pytest.mark.parametrize("port", PORTS)
def test_a_definition_is_shown_by_its_name_and_owner(home: Path, port: str) -> None:
    customs = home / "customs"
    assert f"{port}_berth" in asked(customs, "type", "show", f"ShipMovement@{port}")
    said = refused(customs, "type", "show", "ShipMovement")
    assert "means 2 types here: say which of" in said
    assert f"ShipMovement@{port}" in said


@pytest.mark.parametrize("port", PORTS)
def test_versions_are_asked_for_by_name_and_owner(home: Path, port: str) -> None:
    customs = home / "customs"
    whose = ("--from", "types")
    assert f"{port}_berth" in asked(customs, "type", "versions", f"ShipMovement@{port}", *whose)
    assert f"{port}_berth" in asked(customs, "type", "versions", "ShipMovement", "--owner", port, *whose)
    said = refused(customs, "type", "versions", "ShipMovement", *whose)
    assert f"ShipMovement@{port}" in said, "what it advises is what it takes"


@pytest.mark.parametrize("port", PORTS)
def test_a_topic_says_whose_tree_it_lies_in(home: Path, port: str) -> None:
    name = f"desk-{port}"
    may = ("--may", f"subscribe:/berths/+/free@{port}")
    assert "/berths/+/free" in asked(home, "member", "add", name, "--org", "customs", *may)
    about = ("--as", name, "--action", "subscribe")
    assert "yes, until" in asked(home / "customs", "explain", f"/berths/12/free@{port}", *about)
    other = next(one for one in PORTS if one != port)
    assert f"topic.berths@{other}" in refused(home / "customs", "explain", f"/berths/12/free@{other}", *about)


def test_a_gateway_has_a_topic_for_each_of_them(home: Path) -> None:
    """The second type of one name was dropped in silence."""
    said = asked(home, "gateway", "http", "--org", "customs", "--check", "--listen", "127.0.0.1:0")
    for port in PORTS:
        assert f"ShipMovement@{port} " in said
        assert f"berths@{port}/# " in said
    asked(home, "type", "define", "ShipMovement", "ship:string", "--org", "customs")
    said = asked(home, "gateway", "http", "--org", "customs", "--check", "--listen", "127.0.0.1:0")
    assert "\nShipMovement  " in f"\n{said}", "its own type keeps the name"
    (home / "customs" / "types" / "ShipMovement.type").unlink()


def test_a_ledger_is_read_by_name_and_owner(home: Path) -> None:
    """Deliveries of both are told apart, and those of one are asked for."""
    reader, stream = bytes(range(32)), b"s" * 16
    with LedgerFiles(home / "customs" / "ledger") as ledger:
        for number, port in enumerate(PORTS):
            which = type_id(Organisation(home / port).principal, "ShipMovement")
            said = (
                Begin(1, reader, b"r" * 16, 1000), Audience(2, (1,)), Shown(3, ("1",)),
                Ground(1, reader, which, b"v" * 32, b"w" * 16, (b"c" * 32,)),
                Disclosed(1000 + number, 2, 3, reader, stream, number, (0, 0)),
            )  # fmt: skip
            ledger.write([Disclose(True, records_to_bytes([said[0], said[3], *said[1:3], said[4]]))])
    customs = home / "customs"
    every = asked(customs, "ledger", "show", "ledger")
    for port, other in (PORTS, PORTS[::-1]):
        assert f"ShipMovement@{port}" in every
        one = asked(customs, "ledger", "show", "ledger", "--type", f"ShipMovement@{port}")
        assert f"ShipMovement@{port}" in one
        assert other not in one
        assert "1 deliveries" in one
