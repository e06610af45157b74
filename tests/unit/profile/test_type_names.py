"""Which type a word means, where several owners have one of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.clock import system_now
from maia.organisation import Organisation
from maia.profile import UnknownTypeName
from maia.profile.profile import read_profile
from maia.profile.type_names import type_meant
from maia.testing.refusals import raises


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Organisation]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return {name: Organisation.create(tmp_path / name) for name in ("hamburg", "rotterdam")}


def test_an_owner_is_meant_by_its_name_or_by_the_beginning_of_its_key(ports: dict[str, Organisation]) -> None:
    hamburg, rotterdam = (ports[one].principal for one in ("hamburg", "rotterdam"))
    known = [(hamburg, "port.ShipMovement"), (rotterdam, "port.ShipMovement"), (hamburg, "port.Notice")]
    assert type_meant("Notice", known) == (hamburg, "port.Notice")
    assert type_meant("Notice@hamburg", known) == (hamburg, "port.Notice")
    for word in ("rotterdam", str(rotterdam), str(rotterdam)[:20], "rotterdam/rotterdam"):
        assert type_meant(f"ShipMovement@{word}", known) == (rotterdam, "port.ShipMovement")
    for word in ("ShipMovement", "port.ShipMovement@ed25519:", "ShipMovement@", "Notice@rotterdam"):
        with pytest.raises(UnknownTypeName):
            type_meant(word, known)
    with raises("INPUT-TYPE-NAME", match="did you mean `port.ShipMovement@hamburg`"):
        type_meant("ShipMovement@hambrug", known)


def test_what_an_owner_calls_itself_is_shown_and_not_looked_up(
    ports: dict[str, Organisation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A14: in its own folder, customs knows the ports by what they call themselves, until it names them."""
    customs = Organisation.create(tmp_path / "customs")
    for name, port in ports.items():
        port.define("ShipMovement", ship="string")
        if name == "rotterdam":
            port.join(ports["hamburg"].invite(port.principal).save(f"{name}.invite"))
        grant = port.grant(customs.principal, may="subscribe:ShipMovement", delegable=True)
        file = grant.save(f"{name}.grant")
        customs.join(file, name="lower-elbe" if name == "hamburg" else None)
    monkeypatch.chdir(customs.folder)
    assert customs.event_type("ShipMovement@lower-elbe").name.owner == ports["hamburg"].principal
    short = str(ports["rotterdam"].principal)[:16]
    for word in ("ShipMovement", "ShipMovement@rotterdam", "ShipMovement@hamburg"):
        with pytest.raises(UnknownTypeName, match=f'{short}.* .self-named "rotterdam".*@lower-elbe'):
            customs.event_type(word)
    held = read_profile(customs.add_member("desk", may="subscribe:ShipMovement@lower-elbe").path)
    assert held.type_words() == {"ShipMovement": (ports["hamburg"].principal, "ShipMovement")}
    customs.add_member("desk", may=f"subscribe:ShipMovement@{short}")
    words = held.type_words()
    assert set(words) == {"ShipMovement@lower-elbe", f"ShipMovement@{short}"}
    assert {word: held.lineage(word, at=system_now())[-1].name.owner for word in words} == {
        word: owner for word, (owner, _) in words.items()
    }
    file = next(customs.folder.glob("types/*.type"))
    assert customs.event_type(str(file)).name.name == "ShipMovement"
