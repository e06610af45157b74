"""A type that its owner signed again, with newer certificates inside, is the same type to a broker."""

from __future__ import annotations

from dataclasses import replace

from maia.broker.rights.known_types import KEPT_TYPE, KnownTypes
from maia.broker.settings import BrokerSettings
from maia.broker.turn import Turn
from maia.config.type_folder import latest, same_version_once
from maia.credentials import Validity, VerificationCache
from maia.events import SECOND, Instant
from maia.testing.refusals import raises
from maia.types import SignedDefinition, definition_to_bytes, sign_definition
from maia.wire.effects import Keep
from support.types import CCS, NETWORK, NOON, PITO, PLATE, install, numberplate


def signed(hours: int, *attributes: object) -> SignedDefinition:
    """Sign a type of CCS, which PITO's network accepts for so many hours."""
    inside = install(PITO, CCS, validity=Validity(NOON, Instant(NOON + hours * 3600 * SECOND)))
    definition = numberplate(*attributes, owner=CCS.principal)
    return sign_definition(replace(definition, credentials=(inside,)), CCS)


SHORT, LONG, OTHER = signed(1), signed(3), signed(3, PLATE)


def kept(types: KnownTypes, one: SignedDefinition) -> dict[str, bool]:
    """Let a client hand a definition over; return what is kept and what is dropped on the disk by that."""
    found, handed = types.resolve(one.definition.name, [definition_to_bytes(one)], NOON)
    types.check(handed)
    turn = Turn(NOON)
    types.accept(found, handed, set, turn)
    return {
        effect.name.removeprefix(KEPT_TYPE): effect.data is not None
        for effect in turn.part()
        if isinstance(effect, Keep)
    }


def test_a_broker_keeps_what_holds_for_longer_and_knows_both_as_one() -> None:
    types = KnownTypes(BrokerSettings(NETWORK, "127.0.0.1:0", ()), VerificationCache())
    assert kept(types, SHORT) == {SHORT.id.hex(): True}
    assert kept(types, LONG) == {SHORT.id.hex(): False, LONG.id.hex(): True}
    assert kept(types, SHORT) == kept(types, LONG) == {}
    assert [one.id for one in types.named(LONG.definition.name)] == [LONG.id]
    with raises("TYPE-FORK"):
        kept(types, OTHER)


def test_a_folder_with_both_has_one_newest_version() -> None:
    assert latest(same_version_once([LONG, SHORT])) == latest(same_version_once([SHORT, LONG])) == LONG
    assert len(same_version_once([LONG, OTHER])) == 2
