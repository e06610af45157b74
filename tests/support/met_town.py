"""The Met as the owner of a small network: its name, its types with a street in them, and who may connect."""

from __future__ import annotations

from typing import Final

from maia.clock import system_now
from maia.credentials import (
    FIRST_VERSION,
    Action,
    NetworkName,
    NetworkPattern,
    Principal,
    SignedCertificate,
    TypeName,
    Validity,
    exact_name,
)
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.testing import grant
from maia.types import SignedDefinition, TypeDefinition, sign_definition
from support.domain_server import key_of

MET: Final = key_of("met")
NETWORK: Final = NetworkName(MET.principal, "Met")
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND


def type_with_a_street(name: str) -> SignedDefinition:
    """Return a type of the Met's, at its first version."""
    street = Attribute(attribute_uid("street"), "street", Kind.STRING)
    definition = TypeDefinition(TypeName(MET.principal, name, FIRST_VERSION), None, (street,))
    return sign_definition(definition, MET)


def may(who: Principal, action: Action) -> SignedCertificate:
    """Let somebody do something on the Met's network, for a day from now."""
    now = system_now()
    start = Instant(now - now % _SECOND - _SECOND)
    return grant(
        MET,
        who,
        NetworkPattern(MET.principal, exact_name("Met")),
        *{
            Action.CONNECT: (Action.CONNECT, Action.SERVE),
            Action.BROKER: (Action.CONNECT, Action.BROKER, Action.SERVE),
        }.get(action, (action,)),
        validity=Validity(start, Instant(start + _DAY)),
    )
